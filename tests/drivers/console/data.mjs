// Databases, collections, indexes and documents.
import { check, confirmDialog, until } from './harness.mjs';

export async function databases({ page, go }, client) {
  const shop = client.db('shop');
  await shop.collection('indexed').insertMany(Array.from({ length: 100 }, (_, i) => ({ a: i, b: i, c: i })));
  await shop
    .collection('indexed')
    .createIndexes([{ key: { a: 1 } }, { key: { a: 1, b: 1 } }, { key: { c: 1 }, unique: true }]);
  await shop.collection('indexed').find({ a: 5, b: 5 }).hint('a_1_b_1').toArray();
  await shop.createCollection('view', { viewOn: 'indexed', pipeline: [] });
  await go('databases');
  const row = page.locator('tbody tr', { has: page.getByRole('link', { name: 'shop', exact: true }) });
  await until('databases: figures', async () => /\d/.test(await row.locator('td').nth(3).textContent()));
  await row.getByRole('link').click();
  const indexed = page.locator('tbody tr', { has: page.getByRole('link', { name: 'indexed', exact: true }) });
  await until('collections: count', async () => (await indexed.locator('td').nth(2).textContent()) === '100');
  check('collections: a view', (await page.locator('tbody tr', { hasText: 'view' }).count()) > 0);
  await go('collection/shop/view');
  await until('view: its facts', async () => /View on\s*indexed/.test(await page.locator('.facts').innerText()));
  await page.waitForTimeout(500);
  check('view: no error', (await page.locator('.error:not([hidden])').count()) === 0);
  check('view: no indexes', (await page.getByRole('heading', { name: 'Indexes' }).count()) === 0);
  await go('databases/shop');
  await until('collections: again', async () => (await indexed.count()) === 1);
  await page.getByRole('button', { name: 'Documents' }).click();
  await page.getByRole('button', { name: 'Documents' }).click();
  check('collections: sorted', (await page.locator('th[aria-sort]').count()) === 1);
  await indexed.getByRole('link', { name: 'indexed' }).click();
  await indexes(page, shop);
}

async function indexes(page, shop) {
  const row = (name) =>
    page.locator('tbody tr', { has: page.locator('td:first-child', { hasText: new RegExp(`^${name}$`) }) });
  await until('indexes: redundant', async () => (await row('a_1').textContent()).includes('redundant: a_1_b_1'));
  check('indexes: unused', (await row('a_1').textContent()).includes('unused'), await row('a_1').textContent());
  const used = await row('a_1_b_1').textContent();
  check('indexes: used', !used.includes('unused') && !used.includes('redundant'), used);
  check('indexes: a unique index is not called unused', !(await row('c_1').textContent()).includes('unused'));
  check('indexes: _id cannot be dropped', (await row('_id_').getByRole('button').count()) === 0);
  await row('a_1').getByRole('button', { name: /^Drop/ }).click();
  await confirmDialog(page, 'Drop index', 'a_1');
  await until(
    'indexes: dropped',
    async () => !(await shop.collection('indexed').indexes()).some((index) => index.name === 'a_1'),
  );
  await page.getByLabel('Key').fill('{"b": 1, c: -1}');
  await page.getByLabel('Options').fill('{sparse: true}');
  await page.getByRole('button', { name: 'Build index' }).click();
  await confirmDialog(page, 'Build index');
  await until('indexes: built from the form', async () =>
    (await shop.collection('indexed').indexes()).some((index) => index.name === 'b_1_c_-1' && index.sparse),
  );
  // The page empties the form when the reply has come.
  await until('indexes: the form is empty', async () => (await page.getByLabel('Key').inputValue()) === '');
  await page.getByLabel('Key').fill('{b: 1}, x: {');
  await page.getByRole('button', { name: 'Build index' }).click();
  await until('indexes: a bracket that is not closed is refused', async () =>
    /after the end|not closed/.test(await page.locator('form .error').textContent()),
  );
}

export async function documents(seen, client, examine) {
  const { page, go } = seen;
  const kinds = client.db('shop').collection('kinds');
  const { Long, Double, Decimal128, ObjectId } = await import('./harness.mjs').then(({ need }) => need('mongodb'));
  // A Map, because JavaScript would put the names 1 and 2 first.
  const typed = new Map([
    ['_id', 1],
    ['2', 'two'],
    ['1', 'one'],
    ['long', Long.fromNumber(5)],
    ['double', new Double(3)],
    ['big', Long.fromString('9007199254740993')],
    ['dec', Decimal128.fromString('1.10')],
    ['at', new Date(1700000000000)],
    ['id', new ObjectId('0123456789abcdef01234567')],
    ['text', 'x'.repeat(20000)],
  ]);
  await client.db('shop').command({ insert: 'kinds', documents: [typed] });
  await kinds.insertMany(Array.from({ length: 45 }, (_, i) => ({ _id: i + 2, n: i, name: `name ${i}` })));
  await go('documents/shop/kinds');
  await until('documents: a page', async () => (await page.locator('table tbody tr').count()) === 20);
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByText('Page 2, 20 documents').waitFor();
  await page.getByRole('button', { name: 'Next page' }).click();
  await until('documents: the last page', async () => (await page.locator('table tbody tr').count()) === 6);
  await frozenQuery(page);
  await page.getByLabel('Filter').fill('{n: {$gte: NumberInt(10), $lt: 13}, name: /^NAME/i}');
  await page.getByLabel('Projection').fill('{name: 1}');
  await page.getByLabel('Sort').fill('{_id: -1}');
  await page.keyboard.press('Control+Enter');
  await until(
    'documents: filter in the notation of the shell',
    async () =>
      (await page.locator('table tbody tr').allTextContents()).map((t) => t.match(/name \d+/)?.[0]).join() ===
      'name 12,name 11,name 10',
  );
  await page.getByRole('radio', { name: 'JSON' }).check();
  check(
    'documents: as JSON',
    (await page.locator('.documents pre').first().textContent()).includes('"name": "name 12"'),
  );
  await page.getByLabel('Filter').fill('{a: {$nope: 1}}');
  await page.getByRole('button', { name: 'Run' }).click();
  await until("documents: the server's error", async () =>
    /BadValue \(2\): unknown operator: \$nope/.test(await page.locator('.page > .error').textContent()),
  );
  await noResults(page, 'an error');
  await overtaken(page);
  await page.getByLabel('Filter').fill('{_id: 1}, limit: 5');
  await page.getByRole('button', { name: 'Run' }).click();
  await until('documents: text after the filter is refused', async () =>
    /after the end/.test(await page.locator('.page > .error').textContent()),
  );
  await calls(seen);
  await aggregate(page, examine);
  await edit(page, kinds, examine);
}

/** Other pages are of the query whose results are shown, whatever is typed meanwhile. */
async function frozenQuery(page) {
  await page.getByLabel('Filter').fill('{n: {$gte: 0}}');
  await page.getByLabel('Sort').fill('{n: 1}');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText('Page 1, 20 documents').waitFor();
  await page.getByLabel('Filter').fill('{n: 77777}');
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByText('Page 2, 20 documents').waitFor();
  const first = await page.locator('table tbody tr').first().textContent();
  check('documents: the next page is of the query that was run', first.includes('name 20'), first);
}

/** A reply that comes late does not replace the results of the query that was run after it. */
async function overtaken(page) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  let ended;
  const late = new Promise((resolve) => (ended = resolve));
  await page.route('**/api/command', async (route) => {
    if (!route.request().postData()?.includes('88888')) return route.continue();
    await released;
    await route.continue();
    ended();
  });
  await page.getByLabel('Filter').fill('{n: {$in: [12, 88888]}}');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByLabel('Filter').fill('{n: 13}');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText('"name": "name 13"').first().waitFor();
  const answered = page.waitForResponse((reply) => reply.request().postData()?.includes('88888'));
  release();
  await Promise.all([late, answered]);
  await page.unroute('**/api/command');
  await page.waitForTimeout(200);
  const shown = await page.locator('.documents').textContent();
  check('documents: a late reply changes nothing', shown.includes('name 13') && !shown.includes('name 12'), shown);
}

/** Nothing of an earlier query can be edited below an error. */
async function noResults(page, after) {
  const buttons = page.getByRole('button', { name: /^(Edit|Delete) document/ });
  check(
    `documents: no results after ${after}`,
    (await buttons.count()) === 0 && (await page.locator('.documents').count()) === 0,
  );
  check(`documents: it says so after ${after}`, /No results/.test(await page.locator('main').innerText()));
}

/** Calls as in mongosh; errors name the place in the field. */
async function calls(seen) {
  const { page } = seen;
  const error = page.locator('.page > .error');
  const run = async (filter) => {
    await page.getByLabel('Filter').fill(filter);
    await page.getByRole('button', { name: 'Run' }).click();
  };
  await run('{at: {$lt: new Date()}, id: {$lt: ObjectId()}}');
  await until('documents: new Date() and ObjectId()', async () => (await page.locator('.documents pre').count()) === 1);
  await run('{at: {$gt: ISODate("2023-11-01"), $lt: new Date(Date.now() - 24 * 60 * 60 * 1000)}}');
  await until('documents: arithmetic of dates', async () => (await page.locator('.documents pre').count()) === 1);
  seen.expecting = true; // of 400
  await run('{name: "x",\n  n: twelve}');
  await until(
    'documents: the place of an error',
    async () => (await error.textContent()) === "Filter, line 2, column 12: unknown word 'twelve'",
  );
  await noResults(page, 'an error of the notation');
  seen.expecting = false;
  await run('{at: Date()}');
  await until('documents: Date() is refused', async () =>
    /^Filter, line 1, column 6: Date\(\) is a text/.test(await error.textContent()),
  );
}

async function aggregate(page, examine) {
  await page.getByRole('radio', { name: 'aggregate' }).check();
  await page
    .getByLabel('Pipeline')
    .fill('[{$match: {n: {$exists: true}}}, {$group: {_id: {$mod: ["$n", 5]}, count: {$sum: 1}}}, {$sort: {_id: 1}},]');
  await page.getByRole('button', { name: 'Run' }).click();
  await until('documents: aggregate', async () => (await page.locator('.documents pre').count()) === 5);
  await page.getByRole('button', { name: 'Explain' }).click();
  await until('documents: explain as a tree', async () => (await page.locator('.plan .stage').count()) >= 3);
  const tree = await page.locator('.plan').textContent();
  check(
    'documents: stages of the tree',
    tree.includes('COLLSCAN') && /\$sort|SORT/.test(tree) && /returned/.test(tree),
    tree,
  );
  await examine('documents-explain');
  await page.getByRole('radio', { name: 'find' }).check();
}

async function edit(page, kinds, examine) {
  await page.getByLabel('Filter').fill('{_id: 1}');
  await page.getByLabel('Projection').fill('');
  await page.getByRole('button', { name: 'Run' }).click();
  await until('documents: long texts are cut', async () =>
    /more characters are not shown/.test(await page.locator('.documents pre').first().textContent()),
  );
  await page.getByRole('button', { name: 'Edit document 1', exact: true }).click();
  const area = page.locator('dialog[open] textarea');
  await area.waitFor();
  await examine('dialog-edit');
  await area.fill((await area.inputValue()).replace('"two"', '"TWO"').replace(/x{100,}/, 'short'));
  await page.locator('dialog[open]').getByRole('button', { name: 'Save' }).click();
  await confirmDialog(page, 'Replace');
  await until('documents: edited', async () => (await kinds.findOne({ _id: 1 }))['2'] === 'TWO');
  const types = await kinds
    .aggregate([
      { $match: { _id: 1 } },
      {
        $project: {
          long: { $type: '$long' },
          double: { $type: '$double' },
          dec: { $type: '$dec' },
          at: { $type: '$at' },
          id: { $type: '$id' },
          keys: { $map: { input: { $objectToArray: '$$ROOT' }, in: '$$this.k' } },
          big: { $toString: '$big' },
        },
      },
    ])
    .next();
  check(
    'documents: an edit keeps types, order and digits',
    JSON.stringify(types) ===
      JSON.stringify({
        _id: 1,
        long: 'long',
        double: 'double',
        dec: 'decimal',
        at: 'date',
        id: 'objectId',
        keys: ['_id', '2', '1', 'long', 'double', 'big', 'dec', 'at', 'id', 'text'],
        big: '9007199254740993',
      }),
    types,
  );
  await conflict(page, kinds);
  await page.getByRole('button', { name: 'Insert document' }).click();
  await page.locator('dialog[open] textarea').fill('{_id: "new", at: ISODate("2026-01-31"), tags: ["a", "b"]}');
  await page.locator('dialog[open]').getByRole('button', { name: 'Save' }).click();
  await confirmDialog(page, 'Insert');
  await until('documents: inserted', async () => (await kinds.findOne({ _id: 'new' }))?.at instanceof Date);
  await page.getByLabel('Filter').fill('{_id: "new"}');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByRole('button', { name: 'Delete document new' }).click();
  await confirmDialog(page, 'Delete');
  await until('documents: deleted', async () => (await kinds.countDocuments({ _id: 'new' })) === 0);
}

/** An edit of a document that another client has changed in the meantime is refused. */
async function conflict(page, kinds) {
  await page.getByRole('button', { name: 'Edit document 1', exact: true }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.locator('textarea').waitFor();
  await kinds.updateOne({ _id: 1 }, { $set: { other: 'client' } });
  await dialog.getByRole('button', { name: 'Save' }).click();
  await confirmDialog(page, 'Replace');
  await until('documents: a change of another client is kept', async () =>
    /another client/.test(await dialog.locator('.error').textContent()),
  );
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  check('documents: the other change is there', (await kinds.findOne({ _id: 1 })).other === 'client');
}
