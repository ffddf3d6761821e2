// The web console in Chromium, every page under load: node console.mjs WORK PORT, with NAGI_BINARY.
// Screenshots of all pages are in WORK/screenshots. ONLY=overview,stall runs these parts.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { check, counts, need, openPage, startBrowser, startServer, stopServer, until } from './harness.mjs';
import * as activity from './activity.mjs';
import { alerts } from './alerts.mjs';
import * as data from './data.mjs';
import * as figures from './figures.mjs';
import * as load from './load.mjs';
import * as looks from './looks.mjs';
import { narrow } from './narrow.mjs';
import * as requests from './requests.mjs';
import * as security from './security.mjs';
import * as truth from './truth.mjs';

const { MongoClient } = need('mongodb');
const nagi = process.env.NAGI_BINARY;
const [work, port] = [process.argv[2], Number(process.argv[3])];
const shots = path.join(work, 'screenshots');
mkdirSync(shots, { recursive: true });

let server = null;
let browser = null;
let client = null;
try {
  browser = await startBrowser();
  await withoutLogins();
  await withLogins();
} catch (error) {
  check(`no exception: ${String(error.stack ?? error).slice(0, 1500)}`, false);
} finally {
  await client?.close().catch(() => {});
  await browser?.close();
  if (server) await stopServer(server);
}
console.log(`console: ${counts.passed} checks passed, ${counts.failed.length} failed`);
if (counts.failed.length) console.log(`FAILED ${counts.failed.slice(0, 10).join('; ').slice(0, 1000)}`);
process.exit(counts.failed.length ? 1 : 0);

/** Runs a part of the tests, if ONLY does not name others. */
async function part(name, run) {
  if (process.env.ONLY && !process.env.ONLY.split(',').includes(name)) return;
  try {
    await run();
  } catch (error) {
    check(`${name}: ${String(error.stack ?? error).slice(0, 1200)}`, false);
  }
}

async function withoutLogins() {
  const folder = path.join(work, 'open');
  server = await startServer(nagi, folder, port);
  client = await new MongoClient(server.uri).connect();
  await load.fill(client);
  const stopLoad = load.start(client);
  const seen = await openPage(browser, server);
  const examine = (name) => looks.examine(seen.page, shots, name);
  await part('loading', () => truth.loading(seen));
  await part('log', () => log(seen));
  await part('overview', () => figures.overview(seen));
  await part('memory', () => figures.memory(seen));
  await part('storage', () => figures.storage(seen));
  await part('sizes', () => activity.sizes(seen, client));
  await part('engine', () => activity.engine(seen, client, server));
  await part('doctor', () => activity.doctor(seen));
  await part('growth', () => activity.growth(seen, server));
  await part('hidden', () => figures.hidden(seen));
  await part('stall', () => figures.stall(seen, server));
  // Within the minute for which the rule looks back.
  await part('alerts', () => alerts(seen, examine));
  await part('stalls of work', () => figures.stallsOfWork(seen, client, server));
  await part('operations', () => requests.operations(seen, client, examine));
  await part('slow', () => requests.slow(seen, client, examine));
  await part('advice', () => requests.advice(seen, client, examine));
  await part('databases', () => data.databases(seen, client));
  await part('documents', () => data.documents(seen, client, examine));
  await part('hostile', () => security.hostile(seen, client));
  await part('narrow', () => narrow(seen, client));
  await part('requests', () => security.requests(server));
  await part('keyboard', () => looks.keyboard(seen));
  for (const theme of ['light', 'dark'])
    for (const width of [1280, 390]) await part(`${theme} ${width}`, () => looks.pages(seen, shots, theme, width));
  await part('restart', async () => {
    server = await figures.restart(seen, server, nagi, folder, []);
  });
  check('no errors in the console', seen.errors.length === 0, seen.errors);
  check('no request to another server', seen.foreign.length === 0, seen.foreign);
  await seen.context.close();
  await stopLoad();
  await client.close();
  await stopServer(server);
  const connect = (uri) => new MongoClient(uri).connect();
  await part('oplog', () => activity.oplog(browser, nagi, path.join(work, 'member'), port, connect));
}

async function log({ page, go }) {
  await go('log');
  await until('log: lines', async () => (await page.locator('tbody tr').count()) > 5);
  await page.getByLabel('Text', { exact: true }).fill('23016');
  await until(
    'log: by id',
    async () =>
      (await page.locator('tbody tr').count()) === 1 &&
      (await page.textContent('tbody')).includes('Waiting for connections'),
  );
  await page.getByLabel('Text', { exact: true }).fill('');
  await page.getByLabel('Component').selectOption('NETWORK');
  await until('log: by component', async () =>
    (await page.locator('tbody td:nth-child(3)').allTextContents()).every((text) => text === 'NETWORK'),
  );
}

async function withLogins() {
  server = await startServer(nagi, path.join(work, 'closed'), port, ['--auth']);
  client = await new MongoClient(server.uri).connect();
  await client.db('admin').command({ createUser: 'root', pwd: 'secret', roles: ['root'] });
  await client.close();
  client = await new MongoClient(server.uri, { auth: { username: 'root', password: 'secret' } }).connect();
  await client.db('admin').command({ createUser: 'reader', pwd: 'read', roles: [{ role: 'read', db: 'shop' }] });
  await client
    .db('shop')
    .collection('orders')
    .insertMany([
      { _id: 1, total: 5 },
      { _id: 2, total: 6 },
    ]);
  await part('logins', () => security.logins(browser, server));
}
