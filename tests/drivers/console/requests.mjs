// Current and slow operations: kill, threshold, grouping, suggestion, its index, explain.
import { check, confirmDialog, sleep, until } from './harness.mjs';

const ENDLESS = 'function() { var n = 0; for (var i = 0; i < 1e12; i++) { n += i; } return n > 0; }';

/** An operation without end is shown and killed by its button. */
export async function operations({ page, go }, client, examine) {
  await go('operations');
  const ended = client
    .db('shop')
    .collection('orders')
    .find({ $where: ENDLESS })
    .toArray()
    .then(
      () => 'finished',
      (error) => error.code,
    );
  const row = page
    .locator('tbody tr', { hasText: 'shop.orders' })
    .filter({ hasText: 'find' })
    .filter({ hasText: 'COLLSCAN' });
  await until('operations: the running query', async () => (await row.count()) > 0);
  const time = () => row.first().locator('td').first().textContent();
  const before = await time();
  await sleep(1500);
  check('operations: its time grows', (await time()) !== before, before);
  await row
    .first()
    .getByRole('button', { name: /^Details/ })
    .click();
  check('operations: details', (await page.locator('.details pre').textContent()).includes('$where'));
  await page.locator('.details').getByRole('button', { name: 'Close' }).click();
  await row.first().getByRole('button', { name: /^Kill/ }).click();
  await examine('dialog-kill');
  await page.locator('dialog[open]').getByRole('button', { name: 'Cancel' }).click();
  check('operations: cancelled, it still runs', (await row.count()) > 0);
  await row.first().getByRole('button', { name: /^Kill/ }).click();
  await confirmDialog(page, 'Kill operation');
  const code = await Promise.race([ended, sleep(10000).then(() => 'not killed')]);
  check('operations: the client gets Interrupted', code === 11601, code);
  await until('operations: the row is gone', async () => (await row.count()) === 0);
  await page.getByLabel('Filter by text').fill('no such operation');
  await until('operations: filter', async () => /No operation/.test(await page.textContent('tbody')));
}

/** Slow queries of one shape are one row; the index that the server advises is tried, built and then used. */
export async function slow({ page, go }, client, examine) {
  const orders = client.db('shop').collection('orders');
  await go('slow');
  const threshold = page.getByLabel('Log operations that take at least (ms)');
  await until('slow: the threshold is shown', async () => (await threshold.inputValue()) === '100');
  await threshold.fill('1');
  await page.getByRole('button', { name: 'Set' }).click();
  await until(
    'slow: the threshold is set',
    async () => (await client.db('admin').command({ profile: -1 })).slowms === 1,
  );
  const said = page.locator('form', { has: threshold }).locator('[role=status]');
  await until('slow: the change is confirmed', async () =>
    /^Set at \d\d:\d\d:\d\d: operations of 1 ms and more are slow/.test(await said.innerText()),
  );
  await lines(page, client);
  for (let i = 0; i < 6; i++)
    await orders
      .find({ customer: i, total: { $gt: 5 } })
      .sort({ day: -1 })
      .toArray();
  const row = page
    .locator('tbody tr', { hasText: 'shop.orders' })
    .filter({ hasText: '{ customer: ?, total: { $gt: ? } }' });
  await until('slow: the group', async () => (await row.count()) === 1);
  await until('slow: counted', async () => Number(await row.locator('td').nth(3).textContent()) >= 6);
  check('slow: the plan', (await row.textContent()).includes('COLLSCAN'));
  await until('slow: proposed', async () => (await row.textContent()).includes('proposed'), 30000);
  await row.getByRole('button', { name: /^Examine/ }).click();
  await page.locator('.suggestion .mono').first().waitFor();
  const key = await page.locator('.suggestion .mono').first().textContent();
  check('slow: the index that the server advises', key === '{"customer": 1, "day": -1, "total": 1}', key);
  await explained(page, 'COLLSCAN');
  await page.locator('.suggestion').getByRole('button', { name: 'Try', exact: true }).click();
  const trial = page.locator('.suggestion .trial');
  await until('slow: the trial shows the gain', async () => /times less/.test(await trial.textContent()));
  const tried = await trial.textContent();
  check('slow: the trial shows both plans', /COLLSCAN: 2\d,\d{3} keys/.test(tried) && tried.includes('IXSCAN'), tried);
  check('slow: the sort is avoided', tried.includes('not be sorted in memory'), tried);
  check('slow: the trial builds nothing', (await orders.indexes()).length === 1);
  await page.getByRole('button', { name: 'Show the command' }).click();
  check(
    'slow: the command is shown',
    (await page.locator('.suggestion pre').textContent()).includes('"createIndexes": "orders"'),
  );
  await page.getByRole('button', { name: 'Build this index' }).click();
  await confirmDialog(page, 'Build index');
  await until(
    'slow: the index is built',
    async () => /The index is built/.test(await page.locator('.suggestion [role=status]').textContent()),
    30000,
  );
  const made = await orders.indexes();
  check(
    'slow: the server has the index',
    made.some((index) => JSON.stringify(index.key) === '{"customer":1,"day":-1,"total":1}'),
    made,
  );
  await explained(page, 'IXSCAN');
  await examine('slow-suggestion');
  await row.getByRole('button', { name: /^Examine/ }).click();
  await until('slow: followed, the server says why there is no more advice', async () =>
    /No index is advised: the index customer_1_day_-1_total_1 begins/.test(await page.textContent('.details')),
  );
  await client.db('admin').command({ profile: 0, slowms: 100 });
}

/** Operations that no line of the log shows as a whole have rows too, and those without a plan. */
async function lines(page, client) {
  const orders = client.db('shop').collection('orders');
  await orders.find({ customer: { $in: Array.from({ length: 40000 }, (_, i) => i + 1e6) }, text: 'none' }).toArray();
  await client
    .db('shop')
    .collection('bulk')
    .insertMany(Array.from({ length: 4000 }, (_, n) => ({ n, text: 'x'.repeat(500) })));
  const rows = page.locator('tbody tr');
  const long = rows.filter({ hasText: '{ customer: { $in: ? }, text: ? }' });
  await until('slow: a command of 500 KB has a row', async () => (await long.count()) === 1);
  await long.getByRole('button', { name: /^Examine/ }).click();
  await until('slow: why its command is not shown', async () =>
    /cannot be explained|No command is kept/.test(await page.locator('.details').innerText()),
  );
  const insert = rows.filter({ hasText: 'shop.bulk' }).filter({ hasText: 'insert' });
  await until('slow: an insert has a row', async () => (await insert.count()) === 1);
  await insert.getByRole('button', { name: /^Examine/ }).click();
  await until('slow: no index is advised for it', async () =>
    /no plan that an index could change/.test(await page.locator('.details').innerText()),
  );
  await client.db('shop').collection('bulk').drop();
}

/** Transactions that wait for their client are shown on request. */
export async function idleSessions({ page, go }, client) {
  const session = client.startSession();
  try {
    session.startTransaction();
    await client.db('shop').collection('c').insertOne({ _id: 'idle' }, { session });
    await go('operations');
    const row = page.locator('tbody tr', { hasText: 'inactive transaction' });
    await until('idle sessions: the page has its rows', async () => !/Loading/.test(await page.textContent('tbody')));
    check('idle sessions: not without the check box', (await row.count()) === 0);
    await page.getByRole('checkbox', { name: 'Idle sessions' }).check();
    await until('idle sessions: the row', async () => (await row.count()) === 1);
    const text = await row.innerText();
    check(
      'idle sessions: its times',
      /idle for [\d.]+ (us|ms|s)/.test(text) && /open for .*aborted at \d\d:/.test(text),
      text,
    );
    check('idle sessions: its client', /127\.0\.0\.1:\d+/.test(text), text);
    check('idle sessions: nothing to kill', (await row.getByRole('button', { name: /^Kill/ }).count()) === 0);
    await row.getByRole('button', { name: /^Details/ }).click();
    const all = JSON.parse(await page.locator('.details pre').innerText());
    for (const name of ['lsid', 'client', 'connectionId', 'clientMetadata', 'transaction'])
      check(`idle sessions: details have ${name}`, all[name] !== undefined, all);
    check('idle sessions: number and expiry', all.transaction.parameters.txnNumber && all.transaction.expiryTime, all);
    await session.abortTransaction();
    await until('idle sessions: it ends', async () => (await row.count()) === 0);
  } finally {
    await session.endSession();
  }
}

/** Slow queries become advice with its measured gain; the index is built from there. */
export async function advice({ page, go }, client, examine) {
  const orders = client.db('shop').collection('orders');
  await client.db('admin').command({ profile: 0, slowms: 1 });
  for (let i = 0; i < 6; i++) await orders.find({ day: i, total: { $gt: 5 } }).toArray();
  await client.db('admin').command({ profile: 0, slowms: 100 });
  await go('advice');
  const card = page.locator('section.advice', { hasText: 'Create the index {"day": 1, "total": 1} on shop.orders' });
  await until('advice: the card', async () => (await card.count()) === 1, 60000);
  const told = await card.textContent();
  check('advice: evidence', /\d+ slow operations took/.test(told) && /Measured on/.test(told), told);
  check('advice: the gain', /times less is examined/.test(told) && told.includes('COLLSCAN'), told);
  await examine('advice');
  await card.getByRole('button', { name: 'Build this index' }).click();
  await confirmDialog(page, 'Build index');
  await until(
    'advice: the index is built',
    async () => /The index is built/.test(await card.locator('[role=status]').textContent()),
    30000,
  );
  await page.getByRole('button', { name: 'Get advice' }).click();
  await until('advice: it is gone', async () => (await card.count()) === 0, 60000);
}

/** Explains the example; the tree must have the stage, with figures. */
async function explained(page, stage) {
  await page.locator('.details').getByRole('button', { name: 'Explain', exact: true }).click();
  const node = page.locator('.plan .stage', { hasText: stage }).first();
  await until(
    `slow: explain shows ${stage}`,
    async () => (await node.count()) > 0 && / returned/.test(await node.textContent()),
  );
}
