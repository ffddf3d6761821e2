// What other sizes of the caches would do, events of the engine, the disk map, the oplog's window, the doctor, growth.
import { check, openPage, send, sleep, startServer, stopServer, until } from './harness.mjs';
import { painted } from './figures.mjs';
import { idleSessions } from './requests.mjs';

const part = (page, title) =>
  page.locator('section', { has: page.locator('h2', { hasText: new RegExp(`^${title}$`) }) });

/** Reads of 4,000 documents, of which some are read far more often. */
async function readOften(client) {
  const orders = client.db('shop').collection('orders');
  const ids = (
    await orders
      .find({}, { projection: { _id: 1 } })
      .limit(4000)
      .toArray()
  ).map((one) => one._id);
  for (let round = 0; round < 12; round++)
    await Promise.all(
      Array.from({ length: 8 }, async (_, worker) => {
        for (let i = worker; i < ids.length; i += 8)
          await orders.findOne({ _id: ids[Math.floor((i * i) / ids.length)] });
      }),
    );
}

/** The curves of expected hits appear, with a table. */
export async function sizes({ page, go }, client) {
  await go('memory');
  const own = part(page, 'Other sizes of the caches');
  await own.waitFor();
  await readOften(client);
  await until('sizes: a curve is drawn', async () => (await own.locator('svg.curve polyline').count()) > 0, 30000);
  const label = await own.locator('svg.curve').first().getAttribute('aria-label');
  check('sizes: the curve is described', /^Expected hits of the cache of \w+ by its size\. ./.test(label), label);
  const shown = await own.locator('svg.curve polyline').first().getAttribute('points');
  const heights = shown.split(' ').map((point) => Number(point.split(',')[1]));
  const rises = heights.every((y, i) => !i || y <= heights[i - 1] + 0.01);
  check('sizes: a larger cache has more hits', heights.length >= 5 && rises, heights);
  const details = own.locator('details:not([hidden])').first();
  await details.locator('summary').click();
  check('sizes: the table', (await details.locator('tbody tr').count()) === heights.length);
  const first = await details.locator('tbody tr').first().textContent();
  check('sizes: a row has size and hits', /(B|KiB|MiB|GiB)0\.25x.* %$/.test(first), first);
}

/** Flushes and compactions are listed as they end, and what they read and write is on the map. */
export async function engine({ page, go }, client, server) {
  await go('storage');
  const events = part(page, 'Events');
  const map = part(page, 'Disk map');
  await map.waitFor();
  const provoke = async () => {
    const documents = Array.from({ length: 3000 }, (_, n) => ({ n, text: 'z'.repeat(300) }));
    await client.db('work').collection('c').insertMany(documents);
    await client.db('work').command({ compact: 'c' });
  };
  await provoke();
  await until('events: a flush', async () => (await events.locator('tbody tr', { hasText: 'flush' }).count()) > 0);
  await until('events: a compaction', async () => {
    await provoke();
    return (await events.locator('tbody tr', { hasText: /compaction.*level \d to \d/ }).count()) > 0;
  });
  await events.getByLabel('Kind').selectOption('compaction');
  const kinds = await events.locator('tbody td:nth-child(2)').allTextContents();
  check('events: one kind only', kinds.length > 0 && kinds.every((kind) => kind === 'compaction'), kinds);
  await until('disk map: reads and writes are described', async () => {
    await provoke();
    const text = await map.locator('canvas').getAttribute('aria-label');
    return /last 10 seconds: .*written, most in/.test(text);
  });
  const seen = await painted(page, 'section:has(canvas[aria-label^="Disk map"]) canvas');
  check('disk map: it is drawn', seen.painted > 200 && seen.colours > 3, seen);
  const rows = await map.locator('tbody tr').allTextContents();
  check(
    'disk map: files by space and level',
    rows.some((row) => /L\d/.test(row)),
    rows,
  );
  const reply = await send(server, { path: '/api/disk' });
  const { columns, segments, samples } = JSON.parse(reply.body);
  const isMap = columns === 256 && segments.length > 1 && samples.length > 1 && samples.length <= 120;
  check('disk map: JSON', isMap, [columns, segments, samples.length]);
  const before = samples.length && samples.at(-1).t;
  await sleep(2500);
  const next = JSON.parse((await send(server, { path: '/api/disk' })).body).samples;
  check('disk map: it moves', next.at(-1).t > before, [before, next.at(-1)?.t]);
  const listed = JSON.parse((await send(server, { path: '/api/events' })).body).events;
  check(
    'events: JSON',
    listed.some((one) => one.kind === 'flush' && one.entriesWritten > 0 && one.bytesWritten > 0) &&
      listed.some((one) => one.kind === 'compaction' && one.filesRead > 0 && one.micros > 0),
    listed.slice(-4),
  );
}

/** The doctor's findings appear on request. */
export async function doctor({ page, go }) {
  await go('server');
  const own = part(page, 'Doctor');
  check('doctor: nothing is run before', (await own.locator('table').count()) === 0);
  await own.getByRole('button', { name: 'Run the checks' }).click();
  await until('doctor: findings', async () => (await own.locator('table').count()) === 1);
  const summaries = await own.locator('summary').allTextContents();
  const isSummed = /^Good: \d+/.test(summaries[0]) && summaries.length === 2;
  check('doctor: what is good, and what is not known', isSummed, summaries);
  await own.locator('summary').last().click();
  check('doctor: the disk is not tested', (await own.textContent()).includes('the disk was not tested'));
  // Without authorization, a server has a finding at least.
  await until('doctor: a finding has a fix', async () => (await own.locator('tbody tr .code').count()) > 0);
}

/** Growth is not forecast before there are ten minutes of samples. */
export async function growth({ page, go }, server) {
  const known = async () => JSON.parse((await send(server, { path: '/api/growth' })).body).databases;
  // The first sample of sizes was taken at the start, the second one follows after a minute.
  await until('growth: a sample', async () => (await known()).some((one) => one.name === 'shop'), 75000);
  await go('databases');
  await until('growth: waits for samples', async () =>
    (await page.locator('tbody tr', { hasText: 'shop' }).first().textContent()).includes('not known yet'),
  );
  await go('databases/shop');
  await until('growth: of collections', async () =>
    (await page.locator('tbody tr', { hasText: 'orders' }).first().textContent()).includes('not known yet'),
  );
  const shop = (await known()).find((one) => one.name === 'shop');
  check('growth: JSON', shop?.bytes > 1e6 && shop.trend === 'unknown', shop);
}

/** The window of the oplog of a member of a replica set. */
export async function oplog(browser, nagi, folder, port, connect) {
  const server = await startServer(nagi, folder, port, ['--replSet', 'rs0', '--initiate']);
  const client = await connect(`${server.uri}/?directConnection=true`);
  try {
    await until('oplog: primary', async () => (await client.db('admin').command({ hello: 1 })).isWritablePrimary);
    await client
      .db('shop')
      .collection('c')
      .insertMany([{ _id: 1 }, { _id: 2 }]);
    const seen = await openPage(browser, server);
    await seen.go('storage');
    const own = part(seen.page, 'Change log');
    await until('oplog: the window', async () =>
      /Window\s*[\d.]+ (ms|s|min)/.test(await own.locator('dl').innerText()),
    );
    const text = await own.locator('dl').innerText();
    for (const wanted of [/First entry\s*\d{4}-/, /Newest entry\s*\d{4}-/, /of [\d.]+ [MG]iB/])
      check(`oplog: ${wanted}`, wanted.test(text), text);
    await idleSessions(seen, client);
    check('oplog: no errors in the console', seen.errors.length === 0, seen.errors);
    await seen.context.close();
  } finally {
    await client.close();
    await stopServer(server);
  }
}
