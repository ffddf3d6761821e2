// The newest lines of the log, filtered.
import { command } from './api.js';
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

/** A table of lines, newest first: `{node, show(lines)}`. */
export function logTable(label) {
  const body = el('tbody');
  const head = ['Time', 'Severity', 'Component', 'Id', 'Message', 'Attributes'].map((name) =>
    el('th', { scope: 'col' }, name),
  );
  const node = el(
    'div',
    { class: 'scroll tall', tabindex: '0', role: 'region', 'aria-label': label },
    el('table', { class: 'log' }, el('caption', { class: 'unseen' }, label), el('thead', {}, el('tr', {}, head)), body),
  );
  return {
    node,
    show(lines) {
      fill(
        body,
        lines.length
          ? lines.map((one) =>
              el(
                'tr',
                { class: `severity-${/^[FEWID]$/.test(one.s[0] ?? '') ? one.s[0] : 'I'}` },
                el('td', {}, time(one.t)),
                el('td', {}, brief(one.s, 8)),
                el('td', {}, brief(one.c, 20)),
                el('td', {}, brief(one.id ?? '', 12)),
                el('td', { class: 'prose' }, brief(one.msg, 300)),
                el(
                  'td',
                  { class: 'mono prose' },
                  attributes(one.attr).length > 200
                    ? el('details', {}, el('summary', {}, brief(attributes(one.attr), 160)), code(one.line, 'Line'))
                    : attributes(one.attr),
                ),
              ),
            )
          : el('tr', {}, el('td', { colspan: 6, class: 'hint' }, 'No lines.')),
      );
    },
  };
}

export function logPage(cx) {
  const box = errorBox();
  const note = el('p', { class: 'hint' });
  const filter = { severity: '', component: '', words: '', follow: true };
  const list = logTable('Log');
  let lines = [];
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
    const matching = lines.filter(
      (one) =>
        (!filter.severity || one.s[0] === filter.severity) &&
        (!filter.component || one.c === filter.component) &&
        (!filter.words || one.line.toLowerCase().includes(filter.words)),
    );
    const shown = matching.slice(-ROWS_MAX).reverse();
    // Unchanged lines are left alone: drawing them would close what is open.
    const key = `${shown.length} ${shown[0]?.line} ${shown.at(-1)?.line}`;
    if (key === shownKey) return;
    shownKey = key;
    list.show(shown);
    setText(
      note,
      `${matching.length} of the newest ${lines.length} lines match` +
        `${matching.length > ROWS_MAX ? `; ${ROWS_MAX} are shown` : ''}.`,
    );
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

  fill(
    cx.root,
    el(
      'div',
      { class: 'bar' },
      el(
        'label',
        { class: 'inline' },
        'Severity ',
        select(SEVERITIES, '', (value) => {
          filter.severity = value;
          draw();
        }),
      ),
      el('label', { class: 'inline' }, 'Component ', components),
      search,
      choice(
        'Follow',
        [
          ['yes', 'each 3 s'],
          ['no', 'paused'],
        ],
        'yes',
        (value) => {
          filter.follow = value === 'yes';
        },
      ),
      button('Refresh', load, { class: 'quiet' }),
    ),
    box,
    note,
    list.node,
  );
  cx.every(3000, () => (filter.follow || !lines.length ? load() : null));
}
