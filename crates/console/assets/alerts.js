// Alerts: the rules with their states, silences, actions, and what happened.
import { get, postJson } from './api.js';
import { announce, button, dialog, el, errorBox, field, fill, fills, section, select, showError } from './dom.js';
import { table } from './table.js';
import * as format from './format.js';
import * as live from './live.js';

const EVERY_MS = 5000;
const STATES = { firing: 0, pending: 1, ok: 2 };
const SILENCES = [
  ['3600', '1 hour'],
  ['14400', '4 hours'],
  ['86400', '1 day'],
  ['604800', '1 week'],
];

/** A value with the unit of its rule. */
export function amount(value, unit) {
  if (value === null || value === undefined) return 'not known';
  if (unit === 'bytes') return format.bytes(value);
  if (unit === 's') return format.duration(value * 1000);
  if (unit === 'us') return format.micros(value);
  if (unit === 'share') return format.percent(value);
  const text = format.plain(Math.abs(value) < 10 ? Math.round(value * 1000) / 1000 : Math.round(value));
  return unit ? `${text} ${unit}` : text;
}

async function silence(rule, reload) {
  const until = rule.silentUntilMs;
  const box = errorBox();
  const ask = async (seconds, close) => {
    try {
      await postJson('api/alerts/silence', { rule: rule.name, seconds });
      close(true);
    } catch (error) {
      showError(box, error);
    }
  };
  const done = await dialog(`Silence ${rule.name}`, (close) => {
    const span = select(SILENCES, '3600', () => {});
    return [
      el('p', {}, 'No action is told while a rule is silent. What happens is in the history below.'),
      field('For', span),
      box,
      el(
        'div',
        { class: 'actions' },
        button('Silence', () => ask(Number(span.value), close)),
        until ? button('End the silence', () => ask(0, close)) : null,
        button('Cancel', () => close(), { class: 'quiet' }),
      ),
    ];
  });
  if (!done) return;
  await reload();
  announce(`The silence of ${rule.name} was changed`);
}

const ruleTable = (reload) =>
  table(
    [
      { label: 'State', value: (rule) => STATES[rule.state], text: (rule) => stateText(rule) },
      { label: 'Rule', value: (rule) => rule.name },
      { label: 'Severity', value: (rule) => rule.severity },
      { label: 'Now', value: (rule) => rule.value ?? -1, text: (rule) => amount(rule.value, rule.unit), number: true },
      { label: 'Condition', value: (rule) => rule.condition, cls: 'prose' },
      { label: 'Tells', value: (rule) => ['log', ...rule.actions].join(', ') },
      { label: 'What to do', value: (rule) => rule.advice, cls: 'prose', sort: false },
      {
        label: 'Actions',
        sort: false,
        cls: 'buttons',
        node: (rule, current) =>
          button('Silence', () => silence(current(), reload), {
            class: 'small',
            'aria-label': `Silence ${rule.name}`,
          }),
      },
    ],
    { label: 'Rules', key: (rule) => rule.name, sortBy: 0, empty: 'There are no rules.', cls: 'stacked' },
  );

function stateText(rule) {
  const since = rule.sinceMs ? ` since ${format.time(rule.sinceMs)}` : '';
  const silent = rule.silentUntilMs ? `, silent until ${format.time(rule.silentUntilMs)}` : '';
  return `${rule.state}${since}${silent}`;
}

const historyTable = () =>
  table(
    [
      { label: 'Time', value: (event) => event.atMs, text: (event) => format.time(event.atMs) },
      { label: 'Rule', value: (event) => event.alert },
      {
        label: 'What',
        value: (event) => event.state,
        text: (event) => event.state + (event.silenced ? ' (silent)' : ''),
      },
      {
        label: 'Value',
        value: (event) => event.value ?? -1,
        text: (event) => amount(event.value, event.unit),
        number: true,
      },
      {
        label: 'Lasted',
        value: (event) => event.atMs - event.sinceMs,
        text: (event) => format.duration(event.atMs - event.sinceMs),
        number: true,
      },
      { label: 'Condition', value: (event) => event.condition, cls: 'prose' },
    ],
    {
      label: 'History',
      key: (event) => `${event.alert}/${event.atMs}`,
      sortBy: 0,
      descending: true,
      empty: 'Nothing has happened since the start.',
    },
  );

const actionTable = () =>
  table(
    [
      { label: 'Action', value: (action) => action.name },
      { label: 'Kind', value: (action) => action.kind },
      { label: 'Delivered', value: (action) => action.delivered, number: true },
      { label: 'Failed', value: (action) => action.failed, number: true },
      { label: 'Dropped', value: (action) => action.dropped, number: true },
    ],
    {
      label: 'Actions',
      key: (action) => action.name,
      sortBy: 0,
      empty: 'Alerts are written to the log only. Webhooks and programs are named in the file of --alertRules.',
    },
  );

export function alertsPage(cx) {
  const box = errorBox('clusterMonitor');
  const load = async () => {
    try {
      const found = await get('api/alerts');
      if (cx.left) return;
      showError(box, found.enabled ? null : { message: 'Alerts are off: the server was started with --noalerts.' });
      if (!found.enabled) {
        [rules, actions, history].forEach((list) => list.clear('Alerts are off.'));
        return;
      }
      rules.show(found.rules);
      actions.show(found.actions);
      history.show(found.history);
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  };
  const [rules, actions, history] = [ruleTable(load), actionTable(), historyTable()];
  fills(box, rules, actions, history);
  fill(
    cx.root,
    box,
    section('Rules', rules.node),
    section('History', history.node),
    section('Who is told', actions.node),
  );
  cx.onLeave(live.on('alert', load));
  cx.every(EVERY_MS, load);
}
