// The documents of a page of results, as a table or as JSON, with buttons to edit and delete.
import { brief, button, cut, el, fill } from './dom.js';
import { text } from './ejson.js';
import { deleteDocument, editDocument } from './document_edit.js';

const COLUMNS_MAX = 24;

/** A value as one line: common types in the shell's notation. */
export function cell(value) {
  if (value instanceof Map && value.size === 1) {
    const [[name, inner]] = value;
    if (name === '$oid') return `ObjectId("${inner}")`;
    if (name === '$date' && typeof inner === 'string') return inner;
    if (name === '$numberDecimal' || name === '$numberLong') return String(inner);
  }
  if (value === undefined) return '';
  return typeof value === 'string' ? value : text(value);
}

/** Shows the results of `state`; `run(page)` shows another page of the same query. */
export function showResults(node, state, run) {
  const { found, page } = state;
  const pages = el(
    'div',
    { class: 'bar' },
    button('Previous page', () => run(page - 1), { class: 'quiet', disabled: page === 0 }),
    el('span', { role: 'status' }, found.length ? `Page ${page + 1}, ${found.length} documents` : 'No documents'),
    button('Next page', () => run(page + 1), { class: 'quiet', disabled: !state.isFull }),
  );
  fill(node, pages, found.length ? (state.view === 'table' ? asTable(state, run) : asJson(state, run)) : null);
}

function actions(state, document, run) {
  if (!(document instanceof Map) || !document.has('_id')) return null;
  const again = () => run(state.page);
  const label = brief(cell(document.get('_id')), 60);
  return el(
    'span',
    { class: 'buttons' },
    button(
      'Edit',
      async () => {
        if (await editDocument(state.db, state.collection, document.get('_id'))) again();
      },
      { class: 'small', 'aria-label': `Edit document ${label}` },
    ),
    button(
      'Delete',
      async () => {
        if (await deleteDocument(state.db, state.collection, document)) again();
      },
      { class: 'small danger', 'aria-label': `Delete document ${label}` },
    ),
  );
}

function asTable(state, run) {
  const names = new Set();
  for (const document of state.found) for (const name of document.keys()) if (names.size < COLUMNS_MAX) names.add(name);
  const heads = [...names].map((name) => el('th', { scope: 'col' }, brief(name, 60)));
  const rows = state.found.map((document) =>
    el(
      'tr',
      {},
      el('td', {}, actions(state, document, run)),
      [...names].map((name) => el('td', { class: 'mono' }, brief(cell(document.get(name)), 160))),
    ),
  );
  return el(
    'div',
    { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Documents' },
    el(
      'table',
      {},
      el('caption', { class: 'unseen' }, 'Documents'),
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Actions'), heads)),
      el('tbody', {}, rows),
    ),
  );
}

function asJson(state, run) {
  return el(
    'ol',
    { class: 'documents' },
    state.found.map((document, i) =>
      el(
        'li',
        {},
        el(
          'pre',
          { class: 'code', tabindex: '0', role: 'group', 'aria-label': `Document ${i + 1}` },
          cut(text(document, 2)),
        ),
        actions(state, document, run),
      ),
    ),
  );
}
