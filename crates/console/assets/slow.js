// Slow operations: the log's lines grouped by shape, with a suggestion of an index, explain, and the threshold.
import { command, commandOf, maps } from './api.js';
import {
  announce,
  brief,
  button,
  code,
  el,
  errorBox,
  field,
  fill,
  section,
  setText,
  showError,
} from './dom.js';
import { table } from './table.js';
import { count, duration, time } from './format.js';
import { text } from './ejson.js';
import { begins, indexName } from './advice.js';
import { createText, explainText, groups } from './slow_groups.js';
import { showPlan } from './plan_tree.js';
import { buildButton, trialButton } from './trial.js';

const EXPLAIN_MAX_MS = 30000;

export function slowPage(cx) {
  const box = errorBox();
  const details = el('div', { class: 'details', hidden: true });
  let chosen = null;
  let found = [];

  const list = table(
    [
      { label: 'Namespace', value: (group) => group.ns, cls: 'name' },
      { label: 'Operation', value: (group) => group.name },
      { label: 'Shape', value: (group) => group.shapeText, cls: 'mono wide', max: 160 },
      { label: 'Count', value: (group) => group.count, number: true },
      { label: 'Total', value: (group) => group.totalMs, text: (group) => duration(group.totalMs), number: true },
      { label: 'Median', value: (group) => group.medianMs, text: (group) => duration(group.medianMs), number: true },
      { label: 'Slowest', value: (group) => group.slowestMs, text: (group) => duration(group.slowestMs), number: true },
      {
        label: 'Docs per result',
        value: (group) => group.perReturned,
        text: (group) => count(group.perReturned),
        number: true,
      },
      { label: 'Plan', value: (group) => group.lastPlan, cls: 'mono name' },
      { label: 'Index', value: (group) => (group.advice.indexes.length ? 'suggested' : ''), cls: 'good' },
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
      empty: 'The log has no slow operation.',
      rowClass: (group) => (group.key === chosen ? 'chosen' : ''),
    },
  );

  function choose(group) {
    chosen = group.key;
    list.show(found);
    details.hidden = false;
    groupDetails(details, group);
    details.focus?.();
    details.scrollIntoView({ block: 'nearest' });
  }

  fill(
    cx.root,
    threshold(),
    box,
    el('p', { class: 'hint' }, 'From the newest lines of the log with id 51803, grouped by the shape of the query.'),
    list.node,
    details,
  );
  cx.every(3000, async () => {
    try {
      const { log } = await command('admin', { getLog: 'global' });
      if (cx.left) return;
      found = groups(log);
      list.show(found);
      showError(box, null);
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  });
}

/** Shows and sets `slowms`. */
function threshold() {
  const box = errorBox();
  const input = el('input', { type: 'number', min: '0', max: '86400000', step: '1', required: true, class: 'short' });
  const apply = el('button', { type: 'submit', class: 'quiet' }, 'Set');
  const submit = async (event) => {
    event.preventDefault();
    try {
      await command('admin', { profile: 0, slowms: Number(input.value) });
      showError(box, null);
      announce(`Operations of ${input.value} ms and more are logged.`);
    } catch (error) {
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
    box,
  );
}

function groupDetails(node, group) {
  const [box, plan] = [errorBox(), el('div')];
  const explain = explainText(group);
  node.setAttribute('tabindex', '-1');
  fill(
    node,
    el('h2', {}, `${group.name} on ${brief(group.ns)}`),
    el(
      'p',
      {},
      `${group.count} times, last at ${time(group.lastMs)}; slowest ${duration(group.slowestMs)}; ` +
        `plans: ${brief([...group.plans].join(', '), 300) || 'none'}; ` +
        `clients: ${brief([...group.apps].join(', '), 200)}.`,
    ),
    suggestion(group),
    section(
      'Slowest example',
      code(text(group.attr.get('command') ?? new Map(), 2), 'Command'),
      explain
        ? button('Explain', () => runExplain(group, explain, box, plan))
        : el(
            'p',
            { class: 'hint' },
            'This command cannot be explained: it is of another kind, or the log has not all of it.',
          ),
      box,
      plan,
    ),
  );
}

async function runExplain(group, explain, box, plan) {
  showError(box, null);
  fill(plan, el('p', { class: 'hint' }, 'Running the example ...'));
  try {
    const body = explain.replace(/\}$/, `, "maxTimeMS": ${EXPLAIN_MAX_MS}}`);
    showPlan(plan, await commandOf(group.request.db, body));
  } catch (error) {
    fill(plan);
    showError(box, error);
  }
}

function suggestion(group) {
  const { indexes, reason } = group.advice;
  return section(
    'Index suggestion',
    el('p', {}, reason),
    indexes.map((key) => oneSuggestion(group, key)),
  );
}

function oneSuggestion(group, key) {
  const box = errorBox();
  const note = el('p', { class: 'hint', role: 'status' });
  const shown = el('div', { hidden: true });
  const { db, collection } = group.request;
  const name = indexName(key);
  const build = buildButton({ db, collection, key, name, note, box });
  const explain = explainText(group);
  const trial = explain ? trialButton({ db, explain, key, name, box }) : null;
  const show = button(
    'Show the command',
    async () => {
      fill(shown, code(createText(collection, key, name), 'Command'), build);
      shown.hidden = false;
      show.setAttribute('aria-expanded', 'true');
      try {
        const existing = await maps(db, JSON.stringify({ listIndexes: collection, cursor: { batchSize: 200 } }));
        const same = existing.find((index) => index.get('key') instanceof Map && begins(index.get('key'), key));
        if (same) {
          build.disabled = true;
          setText(note, `The index ${same.get('name')} exists already and begins with these fields.`);
        }
      } catch (error) {
        showError(box, error);
      }
    },
    { 'aria-expanded': 'false' },
  );
  return el(
    'div',
    { class: 'suggestion' },
    el('p', { class: 'mono' }, brief(text(key), 400)),
    trial?.node,
    show,
    trial?.shown,
    shown,
    note,
    box,
  );
}
