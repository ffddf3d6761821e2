// Tables: sorted by a column, with rows that keep their elements while figures change.
import { reasonOf } from './contact.js';
import { brief, button, el, fill, ROWS_MAX, scroller, setText } from './dom.js';

/**
 * A table. Columns: `{label, value(item), text(item), node(item), number, sort, cls}`; `value` is what the column
 * sorts by, `text` what is shown (`value` if absent), `node` an element instead, made once per row. Options:
 * `label`, `cls` of the table (`stacked`: narrow windows show cells below each other), `key(item)` for rows that keep
 * their elements, `sortBy` (index of a column), `descending`, `empty` (text without rows), `rowClass(item)`.
 *
 * Returns `{node, show(items), absent(text), clear(text)}`. At most ROWS_MAX rows are shown, with a note if there are
 * more. Before the first `show` the table says that it is loading, or the text of `absent`: only a reply tells that
 * there are no rows. `clear` forgets the rows.
 */
export function table(columns, options) {
  const state = { column: options.sortBy ?? -1, descending: options.descending ?? false, items: [] };
  const heads = columns.map((column, i) =>
    el(
      'th',
      { scope: 'col', class: column.number ? 'number' : null },
      column.value && column.sort !== false ? button(column.label, () => sortBy(i), { class: 'sort' }) : column.label,
    ),
  );
  const body = el('tbody');
  const note = el('p', { class: 'hint', hidden: true });
  const grid = el(
    'table',
    { class: options.cls ?? null },
    el('caption', { class: 'unseen' }, options.label),
    el('thead', {}, el('tr', {}, heads)),
    body,
  );
  const node = el('div', { class: 'table' }, scroller(options.label, grid), note);
  let rows = new Map();
  let isShown = false;

  function sortBy(i) {
    state.descending = state.column === i ? !state.descending : Boolean(columns[i].number);
    state.column = i;
    if (isShown) show(state.items);
  }

  const say = (text) =>
    fill(body, el('tr', {}, el('td', { colspan: columns.length, class: 'hint' }, el('p', { class: 'said' }, text))));

  function clear(text) {
    isShown = false;
    rows = new Map();
    note.hidden = true;
    say(text);
  }

  function absent(text) {
    if (!isShown) say(text);
  }

  function show(items) {
    isShown = true;
    state.items = items;
    heads.forEach((head, i) => {
      if (i === state.column) head.setAttribute('aria-sort', state.descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    const sorted = sort(items, columns[state.column], state.descending);
    const shown = sorted.slice(0, ROWS_MAX);
    const next = new Map();
    const nodes = shown.map((item, i) => {
      let key = options.key ? options.key(item) : i;
      if (next.has(key)) key = `${key} ${i}`;
      const row = (options.key && rows.get(key)) || newRow(columns, options);
      row.update(item);
      next.set(key, row);
      return row.node;
    });
    rows = next;
    place(body, nodes);
    if (!nodes.length) say(options.empty ?? 'Nothing.');
    note.hidden = items.length <= ROWS_MAX;
    setText(note, `${ROWS_MAX} of ${items.length} rows are shown.`);
  }
  say(reasonOf());
  return { node, show, absent, clear };
}

/** Puts rows into order. Rows that stay at their place are not moved, because moving one takes its focus away. */
function place(body, nodes) {
  const wanted = new Set(nodes);
  for (const old of [...body.children]) if (!wanted.has(old)) old.remove();
  nodes.forEach((node, i) => {
    if (body.children[i] !== node) {
      const focused = node.contains(document.activeElement) ? document.activeElement : null;
      body.insertBefore(node, body.children[i] ?? null);
      focused?.focus();
    }
  });
}

function sort(items, column, descending) {
  if (!column?.value) return items;
  const sign = descending ? -1 : 1;
  return [...items].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return x < y ? -sign : sign;
  });
}

function newRow(columns, options) {
  let current;
  const cells = columns.map((column) =>
    el('td', {
      class: [column.number ? 'number' : '', column.cls ?? ''].join(' ').trim() || null,
      'data-label': options.cls === 'stacked' ? column.label : null,
    }),
  );
  const node = el('tr', {}, cells);
  const made = columns.map(() => null);
  const update = (item) => {
    current = item;
    node.className = options.rowClass?.(item) ?? '';
    columns.forEach((column, i) => {
      if (column.node) {
        // With keys an element is made once; its handlers get the newest item.
        if (!made[i] || !options.key || column.renew) {
          made[i] = column.node(item, () => current);
          fill(cells[i], made[i]);
        }
      } else {
        setText(cells[i], brief(column.text ? column.text(item) : (column.value(item) ?? ''), column.max ?? 200));
      }
    });
  };
  return { node, update };
}
