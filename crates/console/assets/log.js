// The newest lines of the log, filtered.
import { command } from './api.js';
import { reasonOf } from './contact.js';
import {
  brief,
  button,
  choice,
  code,
  el,
  errorBox,
  fill,
  ROWS_MAX,
  select,
  setOptions,
  setText,
  showError,
} from './dom.js';
import { time } from './format.js';

const SEVERITIES = [
  ['', 'all'],
  ['F', 'fatal'],
  ['E', 'error'],
  ['W', 'warning'],
  ['I', 'information'],
  ['D', 'debug'],
];

/** Reads a line; a line that is not JSON keeps its text as the message. */
export function readLine(line) {
  try {
    const entry = JSON.parse(line);
    return {
      line,
      t: Date.parse(entry.t?.$date),
      s: String(entry.s),
      c: String(entry.c),
      id: entry.id,
      ctx: String(entry.ctx ?? ''),
      msg: String(entry.msg),
      attr: entry.attr,
    };
  } catch {
    return { line, s: '', c: '', msg: line };
  }
}

export const attributes = (attr) =>
  attr
    ? Object.entries(attr)
        .map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : value}`)
        .join(' ')
    : '';

/** A table of lines, newest first: `{node, show(lines), absent(text)}`. */
export function logTable(label) {
  const body = el('tbody');
  const head = ['Time', 'Severity', 'Component', 'Id', 'Message', 'Attributes'].map((name) =>
    el('th', { scope: 'col' }, name),
  );
  const node = el(
    'div',
    { class: 'scroll tall', tabindex: '0', role: 'group', 'aria-label': label },
    el('table', { class: 'log stacked' }, el('caption', { class: 'unseen' }, label), el('thead', {}, el('tr', {}, head)), body),
  );
  const say = (text) =>
    fill(body, el('tr', {}, el('td', { colspan: 6, class: 'hint' }, el('p', { class: 'said' }, text))));
  let isShown = false;
  say(reasonOf());
  return {
    node,
    show(lines) {
      isShown = true;
      if (lines.length) fill(body, lines.map(row));
      else say('No lines.');
    },
    absent(text) {
      if (!isShown) say(text);
    },
  };
}

function row(one) {
  const text = attributes(one.attr);
  const whole = () => el('details', {}, el('summary', {}, brief(text, 160)), code(one.line, 'Line'));
  const short = [time(one.t), brief(one.s, 8), brief(one.c, 20), brief(one.id ?? '', 12)];
  return el(
    'tr',
    { class: `severity-${/^[FEWID]/.exec(one.s)?.[0] ?? 'I'}` },
    short.map((value) => el('td', {}, value)),
    el('td', { class: 'prose' }, brief(one.msg, 300)),
    el('td', { class: 'mono prose' }, text.length > 200 ? whole() : text),
  );
}

const FOLLOW = [
  ['yes', 'each 3 s'],
  ['no', 'paused'],
];

export function logPage(cx) {
  const list = logTable('Log');
  const box = errorBox('clusterMonitor', list);
  const note = el('p', { class: 'hint' });
  const filter = { severity: '', component: '', words: '', follow: true };
  let lines = null;
  let shownKey = '';

  const components = select(
    [['', 'all']],
    '',
    (value) => {
      filter.component = value;
      draw();
    },
    { 'aria-label': 'Component' },
  );
  const search = el('input', {
    type: 'search',
    'aria-label': 'Text',
    placeholder: 'Text or id',
    oninput: () => {
      filter.words = search.value.toLowerCase();
      draw();
    },
  });

  function draw() {
    if (!lines) return;
    const matching = lines.filter(
      (one) =>
        (!filter.severity || one.s[0] === filter.severity) &&
        (!filter.component || one.c === filter.component) &&
        (!filter.words || one.line.toLowerCase().includes(filter.words)),
    );
    const shown = matching.slice(-ROWS_MAX).reverse();
    setText(
      note,
      `${matching.length} of the newest ${lines.length} lines match` +
        `${matching.length > ROWS_MAX ? `; ${ROWS_MAX} are shown` : ''}.`,
    );
    // Unchanged lines are left alone: drawing them would close what is open.
    const key = `${shown.length} ${shown[0]?.line} ${shown.at(-1)?.line}`;
    if (key === shownKey) return;
    shownKey = key;
    list.show(shown);
  }

  async function load() {
    try {
      const { log } = await command('admin', { getLog: 'global' });
      if (cx.left) return;
      lines = log.map(readLine);
      const names = [...new Set(lines.map((one) => one.c))].filter(Boolean).sort();
      if (names.length !== components.options.length - 1)
        setOptions(components, [['', 'all'], ...names], filter.component);
      showError(box, null);
      draw();
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  }

  const severities = select(SEVERITIES, '', (value) => {
    filter.severity = value;
    draw();
  });
  const follow = choice('Follow', FOLLOW, 'yes', (value) => {
    filter.follow = value === 'yes';
  });
  const controls = [
    el('label', { class: 'inline' }, 'Severity ', severities),
    el('label', { class: 'inline' }, 'Component ', components),
    search,
    follow,
    button('Refresh', load, { class: 'quiet' }),
  ];
  fill(cx.root, el('div', { class: 'bar' }, controls), box, note, list.node);
  cx.every(3000, () => (filter.follow || !lines ? load() : null));
}
