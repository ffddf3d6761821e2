// One collection: figures, options, indexes; drop.
import { command, documents } from './api.js';
import { button, code, confirm, el, errorBox, facts, fill, section, showError } from './dom.js';
import { bytes, exact, plain } from './format.js';
import { address, collectionStats } from './databases.js';
import { indexSection } from './indexes.js';

export async function collectionPage(cx) {
  const [db, name] = cx.args;
  if (!db || !name) {
    fill(cx.root, el('p', {}, 'Choose a collection on the page ', el('a', { href: '#/databases' }, 'Databases'), '.'));
    return;
  }
  const box = errorBox();
  const figures = el('div');
  const stats = collectionStats(db, name).catch((error) => {
    showError(box, error);
    return {};
  });
  fill(
    cx.root,
    el(
      'p',
      { class: 'path' },
      el('a', { href: '#/databases' }, 'Databases'),
      ' / ',
      el('a', { href: address('databases', db) }, db),
      ' / ',
      el('strong', {}, name),
    ),
    el('p', {}, el('a', { class: 'button', href: address('documents', db, name) }, 'Browse documents')),
    box,
    figures,
    indexSection(cx, db, name, async () => (await stats).indexSizes),
    removal(db, name),
  );
  const [info] = await documents(db, { listCollections: 1, filter: { name }, cursor: { batchSize: 2 } }).catch(
    (error) => {
      showError(box, error);
      return [];
    },
  );
  const found = await stats;
  if (!cx.left) showFigures(figures, info, found);
}

function showFigures(node, info, stats) {
  const known = (value, format) => (value === undefined ? undefined : format(plain(value)));
  const options = info?.options && Object.keys(info.options).length ? info.options : null;
  fill(
    node,
    facts([
      ['Type', info?.type],
      ['Documents', known(stats.count, exact)],
      ['Data', known(stats.size, bytes)],
      ['Average document', known(stats.avgObjSize, bytes)],
      ['Storage', known(stats.storageSize, bytes)],
      ['Free within storage', known(stats.freeStorageSize, bytes)],
      ['Indexes', known(stats.nindexes, exact)],
      ['Index size', known(stats.totalIndexSize, bytes)],
      ['Capped', stats.capped ? 'yes' : undefined],
    ]),
    options ? section('Options', code(JSON.stringify(options, null, 2), 'Options of the collection')) : null,
  );
}

function removal(db, name) {
  const box = errorBox();
  return section(
    'Removal',
    box,
    button(
      'Drop collection',
      async () => {
        const sure = await confirm({
          title: 'Drop the collection?',
          action: 'Drop collection',
          typed: name,
          text: `All documents and indexes of ${db}.${name} are removed. This cannot be undone.`,
        });
        if (!sure) return;
        try {
          await command(db, { drop: name });
          location.hash = address('databases', db);
        } catch (error) {
          showError(box, error);
        }
      },
      { class: 'danger' },
    ),
  );
}
