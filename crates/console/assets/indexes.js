// The indexes of a collection: size, use, whether they are needed; build and drop.
import { command, commandOf, documents, maps, ServerError } from './api.js';
import { announce, brief, button, confirm, el, errorBox, field, fill, fills, section, showError } from './dom.js';
import { table } from './table.js';
import { bytes, duration, exact, plain } from './format.js';
import { text } from './ejson.js';
import { compose, typedPart } from './typed.js';

const BUILD_TIMEOUT_MS = 600000;
const UNAUTHORIZED = 13;
const OPTIONS = [
  'unique',
  'sparse',
  'partialFilterExpression',
  'expireAfterSeconds',
  'collation',
  'hidden',
  'prepareUnique',
  'wildcardProjection',
  'clustered',
];

/**
 * The server's advice on a collection's indexes: names of those that another one replaces, with its name. Empty for
 * users who may not ask for advice.
 */
async function askReplaced(db, collection) {
  try {
    const { advice } = await command('admin', { nagiAdvise: 1, database: db, measure: false });
    return replacedIn(advice, `${db}.${collection}`);
  } catch (error) {
    if (error instanceof ServerError && error.code === UNAUTHORIZED) return new Map();
    throw error;
  }
}

/** Of the advice of a reply, the indexes of the namespace that another one replaces: its name by theirs. */
export const replacedIn = (advice, ns) =>
  new Map(
    advice
      .filter((one) => one.kind === 'dropIndex' && one.ns === ns && one.prefixOf !== undefined)
      .map((one) => [one.name, one.prefixOf]),
  );

/** Joins indexes, their use, sizes, and what replaces them; `now` in ms. */
export function indexRows(indexes, usage, sizes, replaced, now) {
  const used = new Map(usage.map((one) => [one.name, one]));
  return indexes.map((index) => {
    const name = index.get('name');
    const since = plain(used.get(name)?.accesses?.since);
    const ops = plain(used.get(name)?.accesses?.ops);
    const longer = replaced.get(name);
    const isId = name === '_id_';
    const remarks = [];
    if (used.get(name)?.building) remarks.push('being built');
    if (longer) remarks.push(`redundant: ${longer} begins with its fields`);
    if (!isId && ops === 0 && !index.get('unique') && index.get('expireAfterSeconds') === undefined)
      remarks.push(`unused for ${duration(now - since)}`);
    return {
      name,
      key: text(index.get('key')),
      size: plain(sizes?.[name]),
      ops,
      since,
      isId,
      remarks: remarks.join('; '),
      options: OPTIONS.filter((option) => index.has(option) && index.get(option) !== false)
        .map((option) => `${option}: ${text(index.get(option))}`)
        .join(', '),
    };
  });
}

/** The section of a collection's page. `sizes` are `indexSizes` of its figures. */
export function indexSection(cx, db, collection, sizes) {
  const box = errorBox('read on the database');
  const list = table(
    [
      { label: 'Name', value: (index) => index.name },
      { label: 'Key', value: (index) => index.key, cls: 'mono' },
      { label: 'Options', value: (index) => index.options, cls: 'mono' },
      { label: 'Size', value: (index) => index.size, text: (index) => bytes(index.size), number: true },
      { label: 'Uses', value: (index) => index.ops, text: (index) => exact(index.ops), number: true },
      { label: 'Remarks', value: (index) => index.remarks, cls: 'remark prose' },
      {
        label: 'Actions',
        sort: false,
        cls: 'buttons',
        node: (index, current) =>
          index.isId
            ? null
            : button('Drop', () => drop(current()), {
                class: 'small danger',
                'aria-label': `Drop index ${brief(index.name)}`,
              }),
      },
    ],
    {
      label: `Indexes of ${db}.${collection}`,
      key: (index) => index.name,
      sortBy: 0,
      empty: 'No indexes.',
      cls: 'stacked',
    },
  );

  fills(box, list);

  async function load() {
    try {
      const indexes = await maps(db, JSON.stringify({ listIndexes: collection, cursor: { batchSize: 500 } }));
      const usage = await documents(db, {
        aggregate: collection,
        pipeline: [{ $indexStats: {} }],
        cursor: { batchSize: 500 },
      }).catch((error) => {
        showError(box, error);
        return [];
      });
      const replaced = await askReplaced(db, collection).catch((error) => {
        showError(box, error);
        return new Map();
      });
      if (!cx.left) list.show(indexRows(indexes, usage, await sizes(), replaced, Date.now()));
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  }

  async function drop(index) {
    const sure = await confirm({
      title: 'Drop the index?',
      action: 'Drop index',
      typed: index.name,
      text:
        `Queries that use ${brief(index.name)} on ${db}.${collection} will be slower. ` +
        'Building it again reads all documents.',
      detail: `${index.key}\n${index.options}`,
    });
    if (!sure) return;
    try {
      await command(db, { dropIndexes: collection, index: index.name });
      showError(box, null);
      announce('The index was dropped.');
    } catch (error) {
      showError(box, error);
    }
    load();
  }
  load();
  return section('Indexes', box, list.node, creation(db, collection, load));
}

/** The form that builds an index. */
function creation(db, collection, done) {
  const box = errorBox();
  const key = el('input', {
    placeholder: '{customer: 1, total: -1}',
    spellcheck: 'false',
    required: true,
    class: 'mono',
  });
  const options = el('input', { placeholder: '{unique: true}', spellcheck: 'false', class: 'mono' });
  const send = el('button', { type: 'submit' }, 'Build index');
  const submit = async (event) => {
    event.preventDefault();
    try {
      const [keyPart, more] = [typedPart('Key', key.value), typedPart('Options', options.value)];
      const inner = more.inner();
      const name = `${key.value.replace(/[{}"'\s]/g, '').replace(/[:,]/g, '_')}`.slice(0, 120);
      const named = /(^|[{,\s"'])name["']?\s*:/.test(more.text) ? '' : `, "name": ${JSON.stringify(name)}`;
      const index = compose`{"key": ${keyPart}${named}${inner.text.trim() ? ', ' : ''}${inner}}`;
      const body = compose`{"createIndexes": ${JSON.stringify(collection)}, "indexes": [${index}]}`;
      const sure = await confirm({
        title: 'Build the index?',
        action: 'Build index',
        text: `On ${db}.${collection}:`,
        detail: body.text,
      });
      if (!sure) return;
      send.disabled = true;
      await commandOf(db, body, { timeoutMs: BUILD_TIMEOUT_MS });
      showError(box, null);
      fill(box);
      key.value = '';
      announce('The index is built.');
      done();
    } catch (error) {
      showError(box, error);
    } finally {
      send.disabled = false;
    }
  };
  return el(
    'form',
    { class: 'bar', onsubmit: submit, 'aria-label': 'New index' },
    field('Key', key, 'In the notation of the shell.'),
    field('Options', options, 'May be empty.'),
    send,
    box,
  );
}
