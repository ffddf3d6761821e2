// Slow operations: the server's shapes of them, with its advice, explain, and the threshold.
import { command, commandOf, commandText, getText } from './api.js';
import { brief, button, code, el, errorBox, field, fill, fills, section, setText, showError } from './dom.js';
import { table } from './table.js';
import { clock, count, exact, micros, time } from './format.js';
import { parse, soften, text } from './ejson.js';
import { ADVISE, adviceFor, specifications } from './slow_advice.js';
import { explainText, groups, pathOf, requestOf, unexplained } from './slow_groups.js';
import { showPlan } from './plan_tree.js';
import { buildButton, trialButton } from './trial.js';

const EXPLAIN_MAX_MS = 30000;
const ADVICE_EVERY_MS = 15000;

export function slowPage(cx) {
  const box = errorBox('clusterMonitor');
  const note = el('p', { class: 'hint' });
  const details = el('div', { class: 'details', hidden: true });
  let chosen = null;
  let found = [];
  let reply = null;
  let repliedTo = '';
  let repliedAt = 0;

  const list = table(
    [
      { label: 'Namespace', value: (group) => group.ns, cls: 'name' },
      { label: 'Operation', value: (group) => group.name },
      { label: 'Shape', value: (group) => group.shapeText, cls: 'mono wide', max: 160 },
      { label: 'Count', value: (group) => group.count, number: true },
      { label: 'Total', value: (group) => group.totalUs, text: (group) => micros(group.totalUs), number: true },
      { label: 'Average', value: (group) => group.averageUs, text: (group) => micros(group.averageUs), number: true },
      { label: 'Slowest', value: (group) => group.slowestUs, text: (group) => micros(group.slowestUs), number: true },
      {
        label: 'Docs per result',
        value: (group) => group.perReturned,
        text: (group) => (group.perReturned === null ? '' : count(group.perReturned)),
        number: true,
      },
      { label: 'Plan', value: (group) => group.plans.join(', '), cls: 'mono name' },
      { label: 'Index', value: (group) => (adviceFor(reply, group).indexes.length ? 'proposed' : ''), cls: 'good' },
      {
        label: 'Actions',
        sort: false,
        cls: 'buttons',
        node: (group, current) =>
          button('Examine', () => choose(current()), {
            class: 'small',
            'aria-label': `Examine ${brief(group.ns)} ${brief(group.shapeText, 60)}`,
          }),
      },
    ],
    {
      label: 'Slow operations by shape',
      key: (group) => group.key,
      sortBy: 4,
      descending: true,
      empty: 'There was no slow operation since the start of the server.',
      rowClass: (group) => (group.key === chosen ? 'chosen' : ''),
      cls: 'stacked',
    },
  );

  async function askAdvice() {
    reply = parse(await commandText('admin', ADVISE));
    repliedAt = Date.now();
    return reply;
  }

  async function choose(group) {
    chosen = group.key;
    list.show(found);
    details.hidden = false;
    const waiting = el('p', { class: 'hint' }, 'The server is asked ...');
    const advised = el('div', { 'aria-live': 'polite' }, waiting);
    const example = el('div');
    const failure = errorBox('clusterMonitor');
    groupDetails(details, group, failure, advised, example);
    details.focus?.();
    details.scrollIntoView({ block: 'nearest' });
    try {
      const shape = parse(await getText(pathOf(group)));
      if (cx.left || chosen !== group.key) return;
      const command = shape.get('example');
      const request = requestOf(group, command instanceof Map ? soften(command) : null);
      fill(example, slowestExample(request, command, shape.get('redacted') === true));
      await askAdvice();
      if (cx.left || chosen !== group.key) return;
      fill(advised, suggestion(request, adviceFor(reply, group)));
      list.show(found);
    } catch (error) {
      fill(advised);
      showError(failure, error);
    }
  }

  /** Asks the server again if there are other slow operations, and once in a while: indexes come and go. */
  async function refreshAdvice() {
    const seen = found.map((group) => `${group.key} ${group.count}`).join('\n');
    if (!found.length || (seen === repliedTo && Date.now() - repliedAt < ADVICE_EVERY_MS)) return;
    await askAdvice();
    repliedTo = seen;
  }

  fills(box, list);
  fill(cx.root, threshold(), box, note, list.node, details);
  cx.every(3000, async () => {
    try {
      const shapes = parse(await getText('api/slow'));
      if (cx.left) return;
      found = groups(shapes);
      list.show(found);
      setText(note, noteOf(shapes));
      await refreshAdvice();
      if (cx.left) return;
      list.show(found);
      showError(box, null);
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  });
}

/** What the rows are, and what is in none of them. */
export function noteOf(reply) {
  const leftOut = Number(reply.get('leftOut'));
  const others = leftOut ? ` ${exact(leftOut)} others are in no row: those that took least.` : '';
  return `Slow operations since the start of the server, by namespace and shape.${others}`;
}

/** Shows and sets `slowms`. */
function threshold() {
  const box = errorBox('dbAdmin on admin');
  const said = el('p', { class: 'hint', role: 'status' });
  const input = el('input', { type: 'number', min: '0', max: '86400000', step: '1', required: true, class: 'short' });
  const apply = el('button', { type: 'submit', class: 'quiet' }, 'Set');
  const submit = async (event) => {
    event.preventDefault();
    try {
      await command('admin', { profile: 0, slowms: Number(input.value) });
      showError(box, null);
      const until = "until the server's next start";
      setText(said, `Set at ${clock(Date.now())}: operations of ${input.value} ms and more are slow, ${until}.`);
    } catch (error) {
      setText(said, '');
      showError(box, error);
    }
  };
  command('admin', { profile: -1 }).then(
    (reply) => {
      input.value = reply.slowms;
    },
    (error) => showError(box, error),
  );
  return el(
    'form',
    { class: 'bar', onsubmit: submit },
    field('Log operations that take at least (ms)', input),
    apply,
    said,
    box,
  );
}

function groupDetails(node, group, failure, advised, example) {
  node.setAttribute('tabindex', '-1');
  const plans = brief(group.plans.join(', '), 300) || 'none';
  const apps = group.apps.length ? ` Applications: ${brief(group.apps.join(', '), 300)}.` : '';
  fill(
    node,
    el('h2', {}, `${group.name} on ${brief(group.ns)}`),
    el(
      'p',
      {},
      `${exact(group.count)} times, last at ${time(group.lastMs)}; slowest ${micros(group.slowestUs)}; ` +
        `plans: ${plans}.` +
        apps,
    ),
    failure,
    section('Advice on this shape', advised),
    section('Slowest example', example),
  );
}

/** The command with the means to explain it, or why it is not there. */
function slowestExample(request, command, isRedacted) {
  if (!(command instanceof Map)) {
    const why = isRedacted ? "the log leaves out clients' data" : 'all were longer than 8 KiB; the log has them';
    return el('p', { class: 'hint' }, `No command is kept: ${why}.`);
  }
  const [box, plan] = [errorBox(), el('div')];
  const explain = explainText(request);
  return [
    code(text(soften(command), 2), 'Command'),
    explain
      ? button('Explain', () => runExplain(request, explain, box, plan))
      : el('p', { class: 'hint' }, `This command cannot be explained: ${unexplained(request)}.`),
    box,
    plan,
  ];
}

async function runExplain(request, explain, box, plan) {
  showError(box, null);
  fill(plan, el('p', { class: 'hint' }, 'Running the example ...'));
  try {
    const body = explain.replace(/\}$/, `, "maxTimeMS": ${EXPLAIN_MAX_MS}}`);
    showPlan(plan, await commandOf(request.db, body));
  } catch (error) {
    fill(plan);
    showError(box, error);
  }
}

/** The advice of the server on a group, with the means to try it on `request` (null: none), and to follow it. */
function suggestion(request, { indexes, reason }) {
  if (!indexes.length) return el('p', {}, `No index is advised: ${brief(reason, 400)}.`);
  const untried = el('p', { class: 'hint' }, 'A proposal of the rules: whether it helps, a trial tells.');
  return [untried, ...indexes.map((advice) => oneSuggestion(request, advice))];
}

function oneSuggestion(request, advice) {
  const box = errorBox();
  const note = el('p', { class: 'hint', role: 'status' });
  const ns = String(advice.get('ns'));
  const [db, collection] = [ns.slice(0, ns.indexOf('.')), ns.slice(ns.indexOf('.') + 1)];
  const create = advice.get('command');
  const build = buildButton({ db, collection, command: create, note, box });
  const explain = explainText(request);
  const trial = explain ? trialButton({ db, explain, indexes: specifications(advice), box }) : null;
  const shown = el('div', { hidden: true }, code(text(create, 2), 'Command'), build);
  const show = button(
    'Show the command',
    () => {
      shown.hidden = false;
      show.setAttribute('aria-expanded', 'true');
    },
    { 'aria-expanded': 'false' },
  );
  return el(
    'div',
    { class: 'suggestion' },
    el('p', {}, `${brief(String(advice.get('reason')), 400)}.`),
    el('p', { class: 'mono' }, brief(text(advice.get('key')), 400)),
    trial?.node,
    show,
    trial?.shown,
    shown,
    note,
    box,
  );
}
