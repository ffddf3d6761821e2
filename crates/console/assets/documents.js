// Documents: find or aggregate with text in the shell's notation, pages, explain, insert, edit, delete.
import { command, commandOf, commandText, documents } from './api.js';
import {
  button,
  choice,
  confirm,
  el,
  errorBox,
  field,
  fill,
  section,
  select,
  setOptions,
  setText,
  showError,
} from './dom.js';
import { dig, parse } from './ejson.js';
import { showPlan } from './plan_tree.js';
import { insertDocument } from './document_edit.js';
import { showResults } from './document_list.js';
import { QUERY_MAX_MS, queryForm } from './query_form.js';
import { compose } from './typed.js';

export async function documentsPage(cx) {
  const [db, collection] = cx.args;
  const box = errorBox();
  const results = el('div');
  fill(cx.root, await chooser(cx, db, collection));
  if (cx.left || !db || !collection) return;
  const form = queryForm(db, collection);
  const busy = el('span', { class: 'hint', role: 'status' });
  // `query` is the one whose results are shown: other pages are of it, whatever is typed meanwhile.
  const state = { db, collection, page: 0, view: 'table', found: null, query: null };
  // A reply that arrives after a newer request was made must not replace that one's results.
  let newest = 0;
  const attempt = async (work) => {
    const own = ++newest;
    const isOver = () => cx.left || own !== newest;
    setText(busy, 'Running ...');
    try {
      await work(isOver);
      if (!isOver()) showError(box, null);
    } catch (error) {
      if (isOver()) return;
      // Results of another query below an error would be taken for this one's, and edited.
      Object.assign(state, { found: null, query: null });
      fill(results, el('p', { class: 'hint' }, 'No results: see the error above.'));
      showError(box, error);
    } finally {
      if (own === newest) setText(busy, '');
    }
  };
  const show = async (query, page, isOver) => {
    const body = query.body(page);
    if (query.writes && !(await confirmWrite(body.text))) return;
    const reply = await commandText(db, body, { timeoutMs: QUERY_MAX_MS + 5000 });
    if (isOver()) return;
    const found = dig(parse(reply), 'cursor', 'firstBatch') ?? [];
    Object.assign(state, { query, page, found, isFull: found.length >= query.size });
    showResults(results, state, turn);
  };
  const run = () => attempt((isOver) => show(form.read(), 0, isOver));
  const turn = (page) => attempt((isOver) => show(state.query, Math.max(0, page), isOver));
  const explain = () =>
    attempt(async (isOver) => {
      const inner = form.read().body(0);
      const reply = await commandOf(
        db,
        compose`{"explain": ${inner}, "verbosity": "executionStats", "maxTimeMS": ${QUERY_MAX_MS}}`,
      );
      if (isOver()) return;
      state.found = null;
      showPlan(fill(results), reply);
    });
  const insert = async () => {
    if (!(await insertDocument(db, collection))) return;
    if (state.query) turn(state.page);
    else run();
  };
  form.onRun(run);
  form.node.append(
    el(
      'div',
      { class: 'actions' },
      el('button', { type: 'submit' }, 'Run'),
      button('Explain', explain, { class: 'quiet' }),
      button('Insert document', insert, { class: 'quiet' }),
      busy,
    ),
  );
  const views = [
    ['table', 'table'],
    ['json', 'JSON'],
  ];
  const setView = (view) => {
    state.view = view;
    if (state.found) showResults(results, state, turn);
  };
  cx.root.append(form.node, box, choice('View', views, 'table', setView), section('Results', results));
  run();
}

const confirmWrite = (detail) =>
  confirm({ title: 'Run this pipeline?', text: 'It writes into a collection.', action: 'Run', detail });

async function chooser(cx, db, collection) {
  const box = errorBox();
  const go = (nextDb, name) => {
    location.hash = `#/documents/${encodeURIComponent(nextDb)}${name ? `/${encodeURIComponent(name)}` : ''}`;
  };
  const names = select([['', 'choose']], '', (name) => {
    if (name) go(db, name);
  });
  const dbs = select([['', 'choose']], '', (name) => {
    if (name) go(name);
  });
  const node = el('div', { class: 'bar' }, field('Database', dbs), field('Collection', names), box);
  try {
    const found = (await command('admin', { listDatabases: 1, nameOnly: true, authorizedDatabases: true })).databases;
    setOptions(dbs, [['', 'choose'], ...found.slice(0, 2000).map((one) => one.name)], db ?? '');
    if (db) {
      const all = await documents(db, {
        listCollections: 1,
        nameOnly: true,
        authorizedCollections: true,
        cursor: { batchSize: 5000 },
      });
      setOptions(names, [['', 'choose'], ...all.map((one) => one.name).sort()], collection ?? '');
    }
    names.disabled = !db;
  } catch (error) {
    showError(box, error);
  }
  return node;
}
