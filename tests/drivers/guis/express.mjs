// mongo-express: its pages and forms, as a browser uses them.
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { check, need } from '../console/harness.mjs';
import { Session, folderOf, startApp, stopApp } from './apps.mjs';

const DB = 'shown';

/** The token that a form of the page sends back. */
const tokenOf = (text) => /name="_csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';

/** What a table of the page shows for a label. */
function shown(text, label) {
  const cells = [...text.matchAll(/<td[^>]*>([\s\S]*?)<\/td>/g)].map((cell) => cell[1].replace(/<[^>]*>/g, '').trim());
  const at = cells.indexOf(label);
  return at < 0 ? undefined : cells[at + 1];
}

class Express extends Session {
  /** Sends a form of the page at `from`, with its token; the page afterwards has to show the message. */
  async form(from, action, fields, message) {
    const token = tokenOf(await this.page(from));
    const reply = await this.request('POST', action, {
      body: new URLSearchParams({ _csrf: token, ...fields }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    this.judge(`${fields._method ?? 'POST'} ${action}`, reply, message);
    return reply.text;
  }

  /** Follows a link that changes something. */
  async link(from, target, message) {
    await this.page(from);
    const reply = await this.request('GET', target);
    this.judge(target, reply, message);
    return reply.text;
  }

  judge(name, reply, message) {
    const error = /alert-danger[^>]*>([\s\S]*?)<\/div>/
      .exec(reply.text)?.[1]
      .replace(/<[^>]*>|&[a-z]+;/g, ' ')
      .trim();
    check(`${name}: status 200`, reply.status === 200, { status: reply.status, text: reply.text.slice(0, 500) });
    check(`${name}: no error`, !error, error);
    if (message) check(`${name}: says "${message}"`, reply.text.includes(message), reply.text.slice(0, 200));
  }
}

const OPTIONS = {
  ME_CONFIG_MONGODB_ENABLE_ADMIN: 'true',
  ME_CONFIG_SITE_COOKIESECRET: 'cookies',
  ME_CONFIG_SITE_SESSIONSECRET: 'sessions',
  VCAP_APP_HOST: '127.0.0.1',
};

/** The folder in which it runs. The package has no scripts for browsers; a list without them stands in for their names. */
function folder(log) {
  const made = log.replace(/\.log$/, '');
  mkdirSync(made, { recursive: true });
  copyFileSync(path.join(folderOf('mongo-express'), 'package.json'), path.join(made, 'package.json'));
  writeFileSync(path.join(made, 'build-assets.json'), '{}');
  return made;
}

export async function express({ server, login, log, port }) {
  const guarded = Boolean(login);
  const env = { ...OPTIONS, PORT: String(port), ME_CONFIG_MONGODB_URL: server.uri.replace('//', `//${login}`) };
  if (guarded)
    Object.assign(env, {
      ME_CONFIG_BASICAUTH: 'true',
      ME_CONFIG_BASICAUTH_USERNAME: 'me',
      ME_CONFIG_BASICAUTH_PASSWORD: 'own',
    });
  const headers = guarded ? { authorization: `Basic ${Buffer.from('me:own').toString('base64')}` } : {};
  const app = await startApp('mongo-express', 'app.js', {
    env,
    log,
    headers,
    cwd: folder(log),
    base: `http://127.0.0.1:${port}`,
  });
  const client = await new (need('mongodb').MongoClient)(env.ME_CONFIG_MONGODB_URL).connect();
  const db = client.db(DB);
  try {
    await db.dropDatabase();
    if (guarded) check('express: without a password 401', (await fetch(app.base)).status === 401);
    const session = new Express(app);
    await status(session, client);
    await documents(session, db);
    await indexes(session, db, server.isSet);
    await transfer(session, db);
    await removal(session, client);
  } finally {
    await client.close();
    await stopApp(app);
  }
}

async function status(session, client) {
  const text = await session.page('/');
  const real = await client.db('admin').command({ serverStatus: 1 });
  check('express: version', shown(text, 'MongoDB Version') === real.version, shown(text, 'MongoDB Version'));
  check('express: host', shown(text, 'Hostname') === real.host, shown(text, 'Hostname'));
  const numbers = [
    'Current Connections',
    'Available Connections',
    'Active Clients',
    'Queued Operations',
    'Clients Reading',
    'Clients Writing',
    'Read Lock Queue',
    'Write Lock Queue',
    'Total Inserts',
    'Total Queries',
    'Total Updates',
    'Total Deletes',
  ];
  for (const label of numbers) check(`express: ${label}`, /^\d+$/.test(shown(text, label) ?? ''), shown(text, label));
  check('express: uptime', /^\d+ seconds/.test(shown(text, 'Uptime') ?? ''), shown(text, 'Uptime'));
  check('express: databases', text.includes('href="/db/admin/"') || text.includes('/db/admin'), text.slice(0, 300));
}

async function documents(session, db) {
  await session.form('/', '/', { database: DB });
  check('express: a new database', (await session.page('/')).includes(`/db/${DB}/`));
  await session.form(`/db/${DB}/`, `/db/${DB}/`, { collection: 'things' }, 'Collection created!');
  const things = `/db/${DB}/things`;
  await session.form(
    things,
    things,
    { document: '{"_id": "a", "n": 1, "at": ISODate("2024-02-29T10:00:00Z")}' },
    'Document added!',
  );
  await session.form(
    things,
    things,
    { document: '{"_id": ObjectId("65e0a1f00000000000000001"), "n": 2, "sub": {"x": [1, null]}}' },
    'Document added!',
  );
  await session.form(things, things, { document: '{"n": 3}' }, 'Document added!');
  const a = await db.collection('things').findOne({ _id: 'a' });
  check('express: an inserted date', a?.at instanceof Date && a.at.toISOString() === '2024-02-29T10:00:00.000Z', a);
  let text = await session.page(things);
  check(
    'express: all documents',
    text.includes('65e0a1f00000000000000001') && /2024-02-29|Feb 29 2024/.test(text),
    text.match(/<tr class="document[^]{0,900}/)?.[0],
  );
  check('express: their number', shown(text, 'Documents') === '3', shown(text, 'Documents'));
  for (const label of ['Total doc size', 'Average doc size', 'Pre-allocated size', 'Indexes', 'Total index size'])
    check(`express: ${label}`, /^\d/.test(shown(text, label) ?? ''), shown(text, label));

  const count = async (query) => (await session.page(`${things}?${query}`)).split('ObjectId').length - 1;
  check('express: a simple query', (await count('key=n&value=2&type=N')) >= 1);
  text = await session.page(
    `${things}?query=${encodeURIComponent('{"n": {"$gt": 2}}')}&projection=${encodeURIComponent('{"n": 1}')}`,
  );
  check(
    'express: a query with a projection',
    !text.includes('65e0a1f00000000000000001') && text.includes('"n"'),
    text.slice(0, 300),
  );
  text = await session.page(
    `${things}?runAggregate=on&query=${encodeURIComponent('[{"$group": {"_id": "summed", "all": {"$sum": "$n"}}}]')}`,
  );
  check('express: an aggregation', text.includes('summed') && text.includes('6'), text.slice(0, 300));
  text = await session.page(`${things}?sort%5Bn%5D=-1`);
  check('express: sorted', text.indexOf('65e0a1f00000000000000001') > 0, text.slice(0, 300));

  const one = `${things}/${encodeURIComponent('"a"')}`;
  check('express: one document', (await session.page(one)).includes('2024-02-29'));
  await session.form(one, one, { _method: 'put', document: '{"_id": "a", "n": 10, "new": [1]}' }, 'Document updated!');
  check(
    'express: edited',
    JSON.stringify(await db.collection('things').findOne({ _id: 'a' })) === '{"_id":"a","n":10,"new":[1]}',
  );
}

async function indexes(session, db, isSet) {
  const things = `/db/${DB}/things`;
  await session.form(things, `/db/${DB}/addIndex/things`, { index: '{"n": 1}' }, 'Index created!');
  const text = await session.page(things);
  check(
    'express: the index with its size',
    /n_1[^]{0,400}?\d+(\.\d+)? ?(Bytes|KB)/.test(text),
    text.match(/n_1[^]{0,400}/)?.[0],
  );
  check(
    'express: the index is there',
    (await db.collection('things').indexes()).some((index) => index.name === 'n_1'),
  );
  await session.link(things, `/db/${DB}/dropIndex/things?name=n_1`, 'Index deleted!');
  check('express: the index is gone', (await db.collection('things').indexes()).length === 1);
  if (isSet) {
    await session.page(things);
    const reply = await session.request('GET', `/db/${DB}/compact/things`);
    check(
      'express: compact of a primary needs force',
      reply.text.includes('will not run compact on an active replica set primary'),
    );
  } else await session.link(things, `/db/${DB}/compact/things`, 'Collection compacted!');
}

async function transfer(session, db) {
  const lines = (await session.page(`/db/${DB}/export/things`)).trim();
  check('express: export', lines.includes('"n":10') || lines.includes('"n": 10'), lines.slice(0, 200));
  check('express: export as an array', JSON.parse(await session.page(`/db/${DB}/expArr/things`)).length === 3);
  check('express: export as CSV', (await session.page(`/db/${DB}/expCsv/things`)).split('\n').length >= 4);
  const things = `/db/${DB}/things`;
  const token = tokenOf(await session.page(things));
  const form = new FormData();
  form.append(
    'file',
    new Blob(['[{"_id": "imported", "n": {"$numberLong": "5"}}]'], { type: 'application/json' }),
    'import.json',
  );
  const reply = await session.request('POST', `/db/${DB}/import/things?_csrf=${encodeURIComponent(token)}`, {
    body: form,
  });
  check(
    'express: import',
    reply.status === 200 && reply.text.includes('1 document(s) inserted'),
    reply.text.slice(0, 200),
  );
  check('express: it is there', (await db.collection('things').countDocuments({ _id: 'imported' })) === 1);
  await session.form(things, things, { _method: 'put', collection: 'renamed' }, 'Collection renamed!');
  check('express: renamed', (await db.listCollections().toArray()).map((one) => one.name).includes('renamed'));
}

async function removal(session, client) {
  const renamed = `/db/${DB}/renamed`;
  const one = `${renamed}/${encodeURIComponent('"a"')}`;
  await session.form(one, one, { _method: 'delete' }, 'Document deleted!');
  check('express: one document less', (await client.db(DB).collection('renamed').countDocuments()) === 3);
  await session.form(`/db/${DB}/`, renamed, { _method: 'delete' }, 'deleted!');
  check(
    'express: the collection is gone',
    !(await client.db(DB).listCollections().toArray()).some((each) => each.name === 'renamed'),
  );
  await session.form('/', `/${DB}`, { _method: 'delete' });
  check('express: the database is gone', !(await session.page('/')).includes(`/db/${DB}/`));
}
