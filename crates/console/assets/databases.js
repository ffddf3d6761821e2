// Databases, and the collections of one database, with counts and sizes.
import { command, documents } from './api.js';
import { el, errorBox, field, fill, fills, section, showError } from './dom.js';
import { table } from './table.js';
import { bytes, exact, plain } from './format.js';
import { growthColumns, growthOf } from './growth.js';

const AT_ONCE = 4;
const COLLECTIONS_MAX = 500;

/** The address of a page for a namespace. */
export const address = (page, ...parts) => `#/${[page, ...parts.map(encodeURIComponent)].join('/')}`;

/** Calls `work` for each item, a few at a time, until the page is left. */
export async function each(cx, items, work) {
  const queue = [...items];
  const run = async () => {
    while (queue.length && !cx.left) await work(queue.shift());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, run));
}

const growthHint = () =>
  el('p', { class: 'hint' }, 'Growth of the data is measured while the server runs, and known after ten minutes.');

export function databasesPage(cx) {
  return cx.args[0] ? collectionsOf(cx, cx.args[0]) : databases(cx);
}

async function databases(cx) {
  const box = errorBox('read on the database');
  const number = (label, name, format) => ({
    label,
    number: true,
    value: (db) => plain(db[name]),
    text: (db) => (db[name] === undefined ? '' : format(plain(db[name]))),
  });
  const list = table(
    [
      {
        label: 'Database',
        value: (db) => db.name,
        node: (db) => el('a', { href: address('databases', db.name) }, db.name),
      },
      number('Collections', 'collections', exact),
      number('Views', 'views', exact),
      number('Documents', 'objects', exact),
      number('Data', 'dataSize', bytes),
      number('Storage', 'storageSize', bytes),
      number('Indexes', 'indexes', exact),
      number('Index size', 'indexSize', bytes),
      number('On disk', 'sizeOnDisk', bytes),
      ...growthColumns((db) => db.growth),
    ],
    { label: 'Databases', key: (db) => db.name, sortBy: 0, empty: 'There is no database that you may see.' },
  );
  fills(box, list);
  fill(cx.root, box, list.node, growthHint());
  let found = [];
  try {
    found = (await command('admin', { listDatabases: 1, authorizedDatabases: true })).databases;
  } catch (error) {
    showError(box, error);
    return;
  }
  list.show(found);
  const growth = await growthOf();
  for (const db of found) db.growth = growth.get(db.name);
  if (!cx.left) list.show(found);
  await each(cx, found.slice(0, COLLECTIONS_MAX), async (db) => {
    const stats = await command(db.name, { dbStats: 1 }).catch((error) => {
      showError(box, error);
      return {};
    });
    Object.assign(db, { ...stats, name: db.name, sizeOnDisk: db.sizeOnDisk });
    if (!cx.left) list.show(found);
  });
}

/** Figures of a collection by $collStats; `{}` for a view. */
export async function collectionStats(db, name) {
  const [found] = await documents(db, {
    aggregate: name,
    pipeline: [{ $collStats: { storageStats: {} } }],
    cursor: {},
  });
  return found?.storageStats ?? {};
}

function collectionTable(db) {
  const number = (label, name, format) => ({
    label,
    number: true,
    value: (one) => plain(one.stats?.[name]),
    text: (one) => (one.stats?.[name] === undefined ? '' : format(plain(one.stats[name]))),
  });
  return table(
    [
      {
        label: 'Collection',
        value: (one) => one.name,
        node: (one) => el('a', { href: address('collection', db, one.name) }, one.name),
      },
      { label: 'Type', value: (one) => one.type },
      number('Documents', 'count', exact),
      number('Data', 'size', bytes),
      number('Average', 'avgObjSize', bytes),
      number('Storage', 'storageSize', bytes),
      number('Indexes', 'nindexes', exact),
      number('Index size', 'totalIndexSize', bytes),
      ...growthColumns((one) => one.growth),
      {
        label: 'Content',
        sort: false,
        node: (one) => el('a', { href: address('documents', db, one.name) }, 'Documents'),
      },
    ],
    { label: `Collections of ${db}`, key: (one) => one.name, sortBy: 0, empty: 'The database has no collections.' },
  );
}

async function collectionsOf(cx, db) {
  const list = collectionTable(db);
  const box = errorBox('read on the database', list);
  const search = el('input', { type: 'search', oninput: () => draw() });
  let found = null;
  const draw = () =>
    found && list.show(found.filter((one) => one.name.toLowerCase().includes(search.value.toLowerCase())));
  fill(
    cx.root,
    el('p', { class: 'path' }, el('a', { href: '#/databases' }, 'Databases'), ' / ', el('strong', {}, db)),
    section('Collections', el('div', { class: 'bar' }, field('Name contains', search)), box, list.node, growthHint()),
  );
  try {
    found = await documents(db, {
      listCollections: 1,
      authorizedCollections: true,
      nameOnly: true,
      cursor: { batchSize: 5000 },
    });
  } catch (error) {
    showError(box, error);
    return;
  }
  draw();
  const growth = await growthOf(db);
  for (const one of found) one.growth = growth.get(one.name);
  if (cx.left) return;
  draw();
  let last = 0;
  await each(cx, found.filter((one) => one.type !== 'view').slice(0, COLLECTIONS_MAX), async (one) => {
    one.stats = await collectionStats(db, one.name).catch((error) => {
      showError(box, error);
      return {};
    });
    if (!cx.left && Date.now() - last > 200) {
      last = Date.now();
      draw();
    }
  });
  if (!cx.left) draw();
}
