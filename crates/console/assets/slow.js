// Slow operations: the log's lines grouped by shape, with the server's advice, explain, and the threshold.
import { command, commandOf, commandText } from './api.js';
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
  showError,
} from './dom.js';
import { table } from './table.js';
import { count, duration, time } from './format.js';
import { parse, text } from './ejson.js';
import { ADVISE, adviceFor, specifications } from './slow_advice.js';
import { explainText, groups } from './slow_groups.js';
import { showPlan } from './plan_tree.js';
import { buildButton, trialButton } from './trial.js';

const EXPLAIN_MAX_MS = 30000;
const ADVICE_EVERY_MS = 15000;

export function slowPage(cx) {
  const box = errorBox();
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
      { label: 'Index', value: (group) => (adviceFor(reply, group).indexes.length ? 'advised' : ''), cls: 'good' },
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

  async function askAdvice() {
    reply = parse(await commandText('admin', ADVISE));
    repliedAt = Date.now();
    return reply;
  }

  async function choose(group) {
    chosen = group.key;
    list.show(found);
    details.hidden = false;
    const advised = el('div', { 'aria-live': 'polite' }, el('p', { class: 'hint' }, 'The server is asked ...'));
    groupDetails(details, group, advised);
    details.focus?.();
    details.scrollIntoView({ block: 'nearest' });
    try {
      await askAdvice();
      fill(advised, suggestion(group, adviceFor(reply, group)));
      list.show(found);
    } catch (error) {
      fill(advised);
      showError(box, error);
    }
  }

  /** Asks the server again if there are other slow operations, and once in a while: indexes come and go. */
  async function refreshAdvice() {
    const seen = found.map((group) => `${group.key} ${group.count}`).join('\n');
    if (!found.length || (seen === repliedTo && Date.now() - repliedAt < ADVICE_EVERY_MS)) return;
    await askAdvice();
    repliedTo = seen;
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
      await refreshAdvice();
      if (cx.left) return;
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

function groupDetails(node, group, advised) {
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
    section('Advice', advised),
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

/** The advice of the server on a group, with the means to try and to follow it. */
function suggestion(group, { indexes, reason }) {
  if (!indexes.length) return el('p', {}, `No index is advised: ${brief(reason, 400)}.`);
  return indexes.map((advice) => oneSuggestion(group, advice));
}

function oneSuggestion(group, advice) {
  const box = errorBox();
  const note = el('p', { class: 'hint', role: 'status' });
  const ns = String(advice.get('ns'));
  const [db, collection] = [ns.slice(0, ns.indexOf('.')), ns.slice(ns.indexOf('.') + 1)];
  const create = advice.get('command');
  const build = buildButton({ db, collection, command: create, note, box });
  const explain = explainText(group);
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
