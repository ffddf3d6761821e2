// The pages of figures under load: overview, memory, storage; a stall; a restart of the server.
import { randomBytes } from 'node:crypto';
import { check, send, sleep, startServer, stopServer, tile, until } from './harness.mjs';
import * as truth from './truth.mjs';

const labels = (page) =>
  page.locator('.plot').evaluateAll((plots) => plots.map((plot) => plot.getAttribute('aria-label') ?? ''));

/** The number of pixels of a canvas that differ from its most frequent colour. */
export const painted = (page, selector) =>
  page
    .locator(selector)
    .first()
    .evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const counts = new Map();
      for (let i = 0; i < data.length; i += 4) {
        const key = `${data[i]},${data[i + 1]},${data[i + 2]},${data[i + 3]}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      return { colours: counts.size, painted: data.length / 4 - Math.max(...counts.values()) };
    });

/** Checks that all charts of the open page have values, and that some have moved after three seconds. */
async function chartsMove(page, name, least) {
  await until(
    `${name}: charts`,
    async () => (await labels(page)).filter((label) => label.includes('now')).length >= least,
  );
  const before = await labels(page);
  await sleep(3200);
  const after = await labels(page);
  const moved = after.filter((label, i) => label !== before[i]).length;
  check(`${name}: charts have moved`, moved >= 1, { before, after });
  const canvas = await painted(page, '.plot canvas');
  check(`${name}: a chart is drawn`, canvas.painted > 300 && canvas.colours > 3, canvas);
}

export async function overview({ page, go }) {
  await go('overview');
  await until('overview: live', async () => (await page.textContent('#state')) === 'Live');
  await until(
    'overview: operations',
    async () => /^[\d.]+( k)?\/s$/.test(await tile(page, 'Operations')) && (await tile(page, 'Operations')) !== '0/s',
  );
  await until('overview: latencies of reads', async () => /us|ms/.test(await tile(page, 'Reads take')));
  await until('overview: processor', async () => / %$/.test(await tile(page, 'CPU')));
  check('overview: memory', /MiB|GiB/.test(await tile(page, 'Memory')), await tile(page, 'Memory'));
  await chartsMove(page, 'overview', 6);
  await until('overview: the heat map has cells', async () => {
    const map = await painted(page, '.heatmap canvas');
    return map.colours > 8 && map.painted > 800;
  });
  const label = await page.locator('.heatmap canvas').getAttribute('aria-label');
  check('overview: the heat map is described', /operations, most took/.test(label), label);
  await page.locator('.heatmap canvas').focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowLeft');
  await until('overview: the keyboard reads the heat map', async () =>
    /: [\d.]+( k)? operations?$/.test(await page.textContent('.reading')),
  );
  await page.getByRole('radio', { name: '6 hours' }).check();
  await until('overview: six hours', async () => (await labels(page)).every((text) => text.includes('last 6 hours')));
  await page.getByRole('radio', { name: '10 minutes' }).check();
  await until('overview: ten minutes', async () =>
    (await labels(page)).every((text) => text.includes('last 10 minutes')),
  );
}

/** A stopped process is a stall; its band and its row have the cause. */
export async function stall({ page, go }, server) {
  await go('overview');
  await sleep(2500);
  server.child.kill('SIGSTOP');
  await sleep(3000);
  server.child.kill('SIGCONT');
  const row = page
    .locator('section', { has: page.locator('h2', { hasText: /^Stalls$/ }) })
    .locator('tbody tr', { hasText: 'did not run' });
  await until('overview: a provoked stall has its cause', async () => (await row.count()) > 0);
  const warn = await page.evaluate(() => {
    const canvas = document.querySelector('.heatmap canvas');
    const probe = document.createElement('span');
    probe.style.color = 'var(--warn)';
    document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 0; i < data.length; i += 4)
      if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 24) n++;
    return n;
  });
  check('overview: the stall is a band of the heat map', warn > 100, warn);
  await shortPauses(server);
}

/** A process that is stopped for less than half a second. */
async function shortPauses(server) {
  const pauses = async (since) =>
    JSON.parse((await send(server, { path: '/api/stalls' })).body).stalls.filter(
      (stall) => stall.toMs > since && stall.causes.some((one) => one.cause === 'pause'),
    );
  for (const ms of [400, 700]) {
    await sleep(2500);
    const since = Date.now();
    server.child.kill('SIGSTOP');
    await sleep(ms);
    server.child.kill('SIGCONT');
    const found = await until(`stalls: a pause of ${ms} ms`, async () => (await pauses(since))[0]);
    const longest = found?.longestUs;
    check(`stalls: its time is that of ${ms} ms`, longest >= 200000 && longest < (ms + 600) * 1000, found);
  }
}

/** A write that waits until writes are allowed again. */
async function heldWrite(client) {
  const admin = client.db('admin');
  await admin.command({ fsync: 1, lock: true });
  const write = client.db('work').collection('stalls').insertOne({ held: true });
  await sleep(300);
  await admin.command({ fsyncUnlock: 1 });
  await write;
}

/**
 * A write that waits beside a flush or a compaction is a stall, and the page names the work. How long that takes depends
 * on the machine, so there are more and more data; work that was too short beside every write is not named. The command that waits for the work is no part of the stall, and
 * neither is a script that sleeps.
 */
export async function stallsOfWork({ page, go }, client, server) {
  await go('overview');
  const rows = page.locator('section', { has: page.locator('h2', { hasText: /^Stalls$/ }) }).locator('tbody tr');
  const known = async (cause, since) =>
    JSON.parse((await send(server, { path: '/api/stalls' })).body).stalls.find(
      (stall) => stall.toMs > since && stall.causes.some((one) => one.cause === cause),
    );
  for (const [cause, text, wait] of [
    ['flush', /memtables? (was|were) being written to/, () => client.db('admin').command({ fsync: 1 })],
    ['compaction', /compactions? ran/, () => client.db('work').command({ compact: 'stalls' })],
  ]) {
    const since = Date.now();
    let found = null;
    for (const megabytes of [24, 48, 96]) {
      await writeRandom(client.db('work').collection('stalls'), megabytes);
      const script = client.db('work').collection('stalls').find({ $where: 'sleep(2500) || true' }).limit(1);
      await Promise.all([wait(), heldWrite(client), script.toArray()]);
      await sleep(2500);
      if ((found = await known(cause, since))) break;
    }
    const reply = async (path) => JSON.parse((await send(server, { path })).body);
    const held = (await reply('/api/stalls')).stalls.filter((stall) => stall.toMs > since && stall.longestUs >= 90000);
    const long = (await reply('/api/events')).events.filter(
      (event) => event.kind === cause && held.some((stall) => overlapMs(event, stall) >= 80),
    );
    if (!found && !long.length) {
      check(`stalls: a write that was held, without a ${cause} of 80 ms`, held.length > 0, held);
      continue;
    }
    check(`stalls: a write beside a ${cause}`, found && found.longestUs >= 90000 && found.longestUs < 2500000, found);
    await until(`stalls: the page names the ${cause}`, async () => (await rows.filter({ hasText: text }).count()) > 0);
  }
  await client.db('work').collection('stalls').drop();
}

/** For how long work of the engine ran within a stall. */
function overlapMs(event, stall) {
  return Math.min(event.atMs, stall.toMs) - Math.max(event.atMs - event.micros / 1000, stall.fromMs);
}

/** Inserts documents that do not compress. */
async function writeRandom(collection, megabytes) {
  for (let i = 0; i < megabytes; i++)
    await collection.insertMany(Array.from({ length: 64 }, () => ({ data: randomBytes(16384) })));
}

export async function memory({ page, go }) {
  await go('memory');
  await until('memory: resident', async () => /MiB|GiB/.test(await tile(page, 'Resident')));
  await until('memory: pools', async () => (await page.locator('tbody tr', { hasText: 'connections' }).count()) > 0);
  const pieces = await page.locator('.stack .piece').count();
  check('memory: parts of the bar', pieces >= 2, pieces);
  const widths = await page
    .locator('.stack .piece')
    .evaluateAll((all) => all.reduce((sum, one) => sum + one.getBoundingClientRect().width, 0));
  check('memory: the bar has a width', widths >= 2 * pieces, widths);
  await until(
    'memory: hit rate of documents',
    async () => / %$/.test(await tile(page, 'Document cache hits')) || / %$/.test(await tile(page, 'Block cache hits')),
  );
  await chartsMove(page, 'memory', 2);
}

export async function storage({ page, go }) {
  await go('storage');
  await until('storage: free space', async () => /GiB|TiB|MiB/.test(await tile(page, 'Free space')));
  check(
    'storage: forecast waits for history',
    /^-|not in a year|\d/.test(await tile(page, 'Disk full in')),
    await tile(page, 'Disk full in'),
  );
  await until('storage: writes of the log', async () => /written now|log: now|log: /.test((await labels(page)).join()));
  await chartsMove(page, 'storage', 4);
}

/** The page says that the server is gone, and continues with the new one. Returns the new server. */
export async function restart(seen, server, nagi, folder, flags) {
  const { page, go } = seen;
  await go('overview');
  await until('restart: live', async () => (await page.textContent('#state')) === 'Live');
  await truth.frozen(seen, server);
  seen.expecting = true;
  await stopServer(server);
  await until('restart: the loss is shown', async () => /lost/.test(await page.textContent('#state')));
  await truth.stopped(seen);
  const next = await startServer(nagi, folder, server.port, flags);
  await until('restart: live again', async () => (await page.textContent('#state')) === 'Live', 20000);
  await truth.answersAgain(seen);
  await until('restart: new samples', async () => (await tile(page, 'CPU')) !== '-');
  await sleep(500);
  seen.expecting = false;
  return next;
}

/** A hidden page does not draw. */
export async function hidden({ page, go }) {
  await go('overview');
  await until('hidden: live', async () => (await page.textContent('#state')) === 'Live');
  const set = (value) =>
    page.evaluate((isHidden) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
      document.dispatchEvent(new Event('visibilitychange'));
    }, value);
  await set(true);
  await sleep(200);
  const before = [await labels(page), await tile(page, 'Operations')];
  await sleep(2500);
  check(
    'hidden: nothing is drawn',
    JSON.stringify([await labels(page), await tile(page, 'Operations')]) === JSON.stringify(before),
  );
  await set(false);
  await until(
    'hidden: drawn when it is visible again',
    async () => JSON.stringify(await labels(page)) !== JSON.stringify(before[0]),
  );
}
