// One collection or view: figures, options, indexes; drop.
import { command, documents } from './api.js';
import { button, code, confirm, el, errorBox, facts, fill, pending, section, showError } from './dom.js';
import { bytes, exact, plain } from './format.js';
import { address, collectionStats } from './databases.js';
import { indexSection } from './indexes.js';

export async function collectionPage(cx) {
  const [db, name] = cx.args;
  if (!db || !name) {
    fill(cx.root, el('p', {}, 'Choose a collection on the page ', el('a', { href: '#/databases' }, 'Databases'), '.'));
    return;
  }
  const [figures, below] = [pending(), el('div')];
  const box = errorBox('read on the database', figures);
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
    figures.node,
    below,
  );
  const info = await infoOf(db, name, box);
  if (cx.left || info === null) return;
  if (info === undefined) {
    figures.show(el('p', {}, `There is no collection or view ${name} in ${db}.`));
    return;
  }
  // A view has neither documents nor indexes of its own: to ask for them is an error.
  const isView = info.type === 'view';
  const stats = isView
    ? Promise.resolve({})
    : collectionStats(db, name).catch((error) => {
        if (!cx.left) showError(box, error);
        return {};
      });
  fill(
    below,
    isView ? null : indexSection(cx, db, name, async () => (await stats).indexSizes),
    removal(db, name, isView),
  );
  const found = await stats;
  if (!cx.left) showFigures(figures, info, found);
}

/** The entry of listCollections: undefined if there is none, null if it cannot be read. */
async function infoOf(db, name, box) {
  try {
    const body = { listCollections: 1, filter: { name }, cursor: { batchSize: 2 } };
    return (await documents(db, body))[0];
  } catch (error) {
    showError(box, error);
    return null;
  }
}

function showFigures(slot, info, stats) {
  const known = (value, format) => (value === undefined ? undefined : format(plain(value)));
  const options = info.options && Object.keys(info.options).length ? info.options : null;
  slot.show(
    facts([
      ['Type', info.type],
      ['View on', info.options?.viewOn],
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

function removal(db, name, isView) {
  const label = isView ? 'Drop view' : 'Drop collection';
  const box = errorBox();
  return section(
    'Removal',
    box,
    button(
      label,
      async () => {
        const sure = await confirm({
          title: `Drop the ${isView ? 'view' : 'collection'}?`,
          action: label,
          typed: name,
          text: isView
            ? `The view ${db}.${name} is removed, its documents stay. This cannot be undone.`
            : `All documents and indexes of ${db}.${name} are removed. This cannot be undone.`,
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
