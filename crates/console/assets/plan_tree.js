// The reply of explain as a tree of stages with figures.
import { brief, code, el, facts, fill } from './dom.js';
import { count, duration, plain } from './format.js';

const CHILDREN = ['inputStage', 'outerStage', 'innerStage', 'thenStage', 'elseStage'];
const DEPTH_MAX = 60;

/** The stages that produce the input of a stage. */
function childrenOf(stage) {
  const single = CHILDREN.map((name) => stage[name]).filter(Boolean);
  return [
    ...single,
    ...(Array.isArray(stage.inputStages) ? stage.inputStages : []),
    ...(stage.queryPlan ? [stage.queryPlan] : []),
  ];
}

/** The root of the tree: the last stage, whose inputs are below it. */
export function planRoot(reply) {
  const execution = (part) => part.executionStats?.executionStages ?? part.queryPlanner?.winningPlan;
  if (!Array.isArray(reply.stages)) return execution(reply) ?? null;
  return reply.stages.reduce((below, stage) => {
    const [name] = Object.keys(stage);
    if (name === '$cursor' || name === '$geoNearCursor') return execution(stage[name]) ?? { stage: name };
    const { [name]: specification, ...rest } = stage;
    return { stage: name, specification, ...rest, ...(below ? { inputStage: below } : {}) };
  }, null);
}

/** The sums of explain: of the reply itself, or of its cursor stage. */
export function planTotals(reply) {
  return reply.executionStats ?? reply.stages?.[0]?.$cursor?.executionStats ?? null;
}

const timeOf = (stage) => plain(stage.executionTimeMillisEstimate);

function figures(stage) {
  const list = [];
  const put = (name, label) => {
    if (stage[name] !== undefined) list.push(`${count(plain(stage[name]))} ${label}`);
  };
  put('nReturned', 'returned');
  put('keysExamined', 'keys');
  put('docsExamined', 'documents read');
  if (timeOf(stage) !== undefined) list.push(duration(timeOf(stage)));
  return list.join(', ');
}

/** What the reader looks for first: the index, the direction, the condition. */
function note(stage) {
  const parts = [];
  if (stage.indexName) parts.push(String(stage.indexName));
  if (stage.sortPattern) parts.push(JSON.stringify(stage.sortPattern));
  if (stage.direction === 'backward') parts.push('backward');
  if (stage.usedDisk) parts.push('used the disk');
  return brief(parts.join(', '), 160);
}

function details(stage) {
  const rest = Object.entries(stage).filter(
    ([name]) => !CHILDREN.includes(name) && !['inputStages', 'queryPlan', 'stage'].includes(name),
  );
  if (!rest.length) return null;
  return el(
    'details',
    {},
    el('summary', {}, 'Details'),
    facts(rest.map(([name, value]) => [name, typeof value === 'object' ? JSON.stringify(value) : String(value)])),
  );
}

function branch(stage, rootMs, depth) {
  const bar = el('span', { class: 'meter', 'aria-hidden': 'true' });
  const children = depth < DEPTH_MAX ? childrenOf(stage) : [];
  const own = Math.max(0, (timeOf(stage) ?? 0) - children.reduce((total, child) => total + (timeOf(child) ?? 0), 0));
  bar.style.width = `${rootMs > 0 ? Math.round((own / rootMs) * 100) : 0}%`;
  const name = String(stage.stage ?? 'stage');
  const slow = name === 'COLLSCAN' || (name === 'SORT' && stage.usedDisk);
  return el(
    'li',
    {},
    el(
      'div',
      { class: slow ? 'stage warned' : 'stage' },
      el('strong', {}, brief(name, 80)),
      ' ',
      el('span', { class: 'mono' }, note(stage)),
      el('span', { class: 'stage-figures' }, figures(stage)),
      el('span', { class: 'track', 'aria-hidden': 'true' }, bar),
      details(stage),
    ),
    children.length
      ? el(
          'ul',
          {},
          children.map((child) => branch(child, rootMs, depth + 1)),
        )
      : null,
  );
}

/** Shows the reply in `node`: sums, the tree, rejected plans and the text. */
export function showPlan(node, reply) {
  const root = planRoot(reply);
  const totals = planTotals(reply);
  const rejected = (reply.queryPlanner ?? reply.stages?.[0]?.$cursor?.queryPlanner)?.rejectedPlans?.length ?? 0;
  fill(
    node,
    totals
      ? facts([
          ['Returned', count(plain(totals.nReturned))],
          ['Keys read', count(plain(totals.totalKeysExamined))],
          ['Documents read', count(plain(totals.totalDocsExamined))],
          ['Time', duration(plain(totals.executionTimeMillis))],
          ['Rejected plans', String(rejected)],
        ])
      : null,
    root
      ? el(
          'ul',
          { class: 'plan', 'aria-label': 'Stages of the plan, the last one first' },
          branch(root, timeOf(root) ?? 0, 0),
        )
      : el('p', { class: 'hint' }, 'The reply contains no plan.'),
    el('details', {}, el('summary', {}, 'Reply as text'), code(JSON.stringify(reply, null, 2), 'Reply of explain')),
  );
}
