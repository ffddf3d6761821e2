// Documents: find or aggregate with text in the shell's notation, pages, explain, insert, edit, delete.
import { command, commandOf, commandText, documents } from './api.js';
import { brief, button, choice, confirm, cut, el, errorBox, field, fill, section, select, setOptions, setText, showError } from './dom.js';
import { dig, parse, text, typed } from './ejson.js';
import { showPlan } from './plan_tree.js';
import { deleteDocument, editDocument, insertDocument } from './document_edit.js';

const QUERY_MAX_MS = 30000;
const COLUMNS_MAX = 24;
const WRITES = /["']?\$(out|merge)["']?\s*:/;
/** What was typed for each namespace, while the console is open. */
const drafts = new Map();
const DRAFTS_MAX = 50;

const input = (name, placeholder, rows = 1) => (rows > 1
  ? el('textarea', { name, rows, placeholder, spellcheck: 'false', class: 'mono' })
  : el('input', { name, placeholder, spellcheck: 'false', autocomplete: 'off', class: 'mono' }));

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

export async function documentsPage(cx) {
  const [db, collection] = cx.args;
  const box = errorBox();
  const results = el('div');
  fill(cx.root, await chooser(cx, db, collection));
  if (cx.left || !db || !collection) return;
  const query = queryForm(db, collection);
  const state = { db, collection, page: 0, view: 'table', found: [], query };
  const run = async (page) => {
    try {
      state.page = Math.max(0, page);
      const body = query.body(state.page);
      if (WRITES.test(body.text) && !(await confirm({ title: 'Run this pipeline?', text: 'It writes into a collection.', action: 'Run', detail: body.text }))) return;
      setText(busy, 'Running ...');
      const reply = await commandText(db, body.text, { timeoutMs: QUERY_MAX_MS + 5000 });
      if (cx.left) return;
      state.found = dig(parse(reply), 'cursor', 'firstBatch') ?? [];
      state.isFull = state.found.length >= body.size;
      showError(box, null);
      showResults(results, state, run);
    } catch (error) {
      if (!cx.left) showError(box, error);
    } finally {
      setText(busy, '');
    }
  };
  const explain = async () => {
    try {
      setText(busy, 'Running ...');
      const reply = await commandOf(db, `{"explain": ${query.body(0).text}, "verbosity": "executionStats", "maxTimeMS": ${QUERY_MAX_MS}}`);
      showError(box, null);
      if (!cx.left) showPlan(fill(results), reply);
    } catch (error) {
      if (!cx.left) showError(box, error);
    } finally {
      setText(busy, '');
    }
  };
  const busy = el('span', { class: 'hint', role: 'status' });
  query.node.addEventListener('submit', (event) => { event.preventDefault(); query.keep(); run(0); });
  query.node.addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); query.node.requestSubmit(); } });
  query.node.append(el('div', { class: 'actions' }, el('button', { type: 'submit' }, 'Run'), button('Explain', explain, { class: 'quiet' }),
    button('Insert document', async () => { if (await insertDocument(db, collection)) run(state.page); }, { class: 'quiet' }), busy));
  cx.root.append(query.node, box,
    choice('View', [['table', 'table'], ['json', 'JSON']], 'table', (view) => { state.view = view; showResults(results, state, run); }),
    section('Results', results));
  run(0);
}

async function chooser(cx, db, collection) {
  const box = errorBox();
  const go = (nextDb, name) => { location.hash = `#/documents/${encodeURIComponent(nextDb)}${name ? `/${encodeURIComponent(name)}` : ''}`; };
  const names = select([['', 'choose']], '', (name) => { if (name) go(db, name); });
  const dbs = select([['', 'choose']], '', (name) => { if (name) go(name); });
  const node = el('div', { class: 'bar' }, field('Database', dbs), field('Collection', names), box);
  try {
    const found = (await command('admin', { listDatabases: 1, nameOnly: true, authorizedDatabases: true })).databases;
    setOptions(dbs, [['', 'choose'], ...found.slice(0, 2000).map((one) => one.name)], db ?? '');
    if (db) {
      const all = await documents(db, { listCollections: 1, nameOnly: true, authorizedCollections: true, cursor: { batchSize: 5000 } });
      setOptions(names, [['', 'choose'], ...all.map((one) => one.name).sort()], collection ?? '');
    }
    names.disabled = !db;
  } catch (error) {
    showError(box, error);
  }
  return node;
}

/** The form of the query: `{node, body(page), keep()}`, where `body` is `{text, size}` or throws SyntaxError. */
function queryForm(db, collection) {
  const draft = drafts.get(`${db}.${collection}`) ?? {};
  const parts = {
    filter: input('filter', '{status: "open", total: {$gt: 10}}', 2), projection: input('projection', '{total: 1}'),
    sort: input('sort', '{total: -1}'), skip: el('input', { name: 'skip', type: 'number', min: '0', max: '2000000000', value: '0', class: 'short' }),
    size: select(['10', '20', '50'], '20', () => {}, { name: 'size' }), pipeline: input('pipeline', '[{$group: {_id: "$status", n: {$sum: 1}}}]', 5),
  };
  for (const [name, control] of Object.entries(parts)) if (draft[name] !== undefined) control.value = draft[name];
  let mode = draft.mode ?? 'find';
  const find = el('div', { class: 'fields' }, field('Filter', parts.filter), field('Projection', parts.projection), field('Sort', parts.sort), field('Skip', parts.skip));
  const aggregate = el('div', { class: 'fields' }, field('Pipeline', parts.pipeline));
  const draw = () => { find.hidden = mode !== 'find'; aggregate.hidden = mode !== 'aggregate'; };
  draw();
  const node = el('form', { class: 'query', 'aria-label': 'Query' },
    choice('Kind', [['find', 'find'], ['aggregate', 'aggregate']], mode, (next) => { mode = next; draw(); }),
    find, aggregate, field('Documents on a page', parts.size));
  return {
    node,
    keep() {
      if (drafts.size >= DRAFTS_MAX) drafts.clear();
      drafts.set(`${db}.${collection}`, { mode, ...Object.fromEntries(Object.entries(parts).map(([name, control]) => [name, control.value])) });
    },
    body(page) {
      const size = Number(parts.size.value);
      const name = JSON.stringify(collection);
      if (mode === 'aggregate') return { size, text: `{"aggregate": ${name}, "pipeline": ${paged(typed(parts.pipeline.value, '['), page * size, size)}, "cursor": {"batchSize": ${size + 1}}, "maxTimeMS": ${QUERY_MAX_MS}}` };
      const skip = Math.max(0, Number(parts.skip.value) || 0) + page * size;
      return { size, text: `{"find": ${name}, "filter": ${typed(parts.filter.value)}, "projection": ${typed(parts.projection.value)}, "sort": ${typed(parts.sort.value)}, `
        + `"skip": ${skip}, "limit": ${size}, "singleBatch": true, "maxTimeMS": ${QUERY_MAX_MS}}` };
    },
  };
}

/** Adds $skip and $limit to the text of a pipeline; one that writes stays as it is. */
export function paged(pipeline, skip, limit) {
  if (WRITES.test(pipeline)) return pipeline;
  const inner = pipeline.slice(1, -1).trim().replace(/,$/, '');
  return `[${inner ? `${inner}, ` : ''}{"$skip": ${skip}}, {"$limit": ${limit}}]`;
}

function showResults(node, state, run) {
  const { found, page } = state;
  const pages = el('div', { class: 'bar' },
    button('Previous page', () => run(page - 1), { class: 'quiet', disabled: page === 0 }),
    el('span', { role: 'status' }, found.length ? `Page ${page + 1}, ${found.length} documents` : 'No documents'),
    button('Next page', () => run(page + 1), { class: 'quiet', disabled: !state.isFull }));
  fill(node, pages, found.length ? (state.view === 'table' ? asTable(state, run) : asJson(state, run)) : null);
}

function actions(state, document, run) {
  if (!(document instanceof Map) || !document.has('_id')) return null;
  const again = () => run(state.page);
  const label = brief(cell(document.get('_id')), 60);
  return el('span', { class: 'buttons' },
    button('Edit', async () => { if (await editDocument(state.db, state.collection, document.get('_id'))) again(); }, { class: 'small', 'aria-label': `Edit document ${label}` }),
    button('Delete', async () => { if (await deleteDocument(state.db, state.collection, document)) again(); }, { class: 'small danger', 'aria-label': `Delete document ${label}` }));
}

function asTable(state, run) {
  const names = new Set();
  for (const document of state.found) for (const name of document.keys()) if (names.size < COLUMNS_MAX) names.add(name);
  const heads = [...names].map((name) => el('th', { scope: 'col' }, brief(name, 60)));
  const rows = state.found.map((document) => el('tr', {}, el('td', {}, actions(state, document, run)),
    [...names].map((name) => el('td', { class: 'mono' }, brief(cell(document.get(name)), 160)))));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Documents' },
    el('table', {}, el('caption', { class: 'unseen' }, 'Documents'), el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Actions'), heads)), el('tbody', {}, rows)));
}

function asJson(state, run) {
  return el('ol', { class: 'documents' }, state.found.map((document, i) => el('li', {},
    el('pre', { class: 'code', tabindex: '0', role: 'region', 'aria-label': `Document ${i + 1}` }, cut(text(document, 2))), actions(state, document, run))));
}
