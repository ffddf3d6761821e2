// mongo-gui: the requests that its page sends.
import { check } from '../console/harness.mjs';
import { Session, startApp, stopApp } from './apps.mjs';

const DB = 'shown';
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const number = (value) => Number(value?.$numberInt ?? value);

export async function gui({ server, login, log, port }) {
  const uri = server.uri.replace('//', `//${login}`);
  // It asks for a key of a service that it uses only for queries in plain language.
  const env = { OPENAI_API_KEY: 'none', ...(login ? { MONGOGUI_USERNAME: 'me', MONGOGUI_PASSWORD: 'own' } : {}) };
  const headers = login ? { authorization: `Basic ${Buffer.from('me:own').toString('base64')}` } : {};
  const base = `http://127.0.0.1:${port}`;
  const app = await startApp('mongo-gui', 'server.js', {
    args: ['-u', uri, '-p', String(port)],
    env,
    headers,
    log,
    base,
  });
  try {
    if (login) check('gui: without a password 401', (await fetch(base)).status === 401);
    await requests(new Session(app));
  } finally {
    await stopApp(app);
  }
}

async function requests(session) {
  check('gui: its page', (await session.page('/')).includes('<html'));
  const databases = await session.json('GET', '/databases');
  check(
    'gui: databases',
    databases.databases?.some((one) => one.name === 'admin') && databases.totalSize >= 0,
    databases,
  );
  const collections = `/databases/${DB}/collections`;
  await session.json('POST', collections, { database: DB, collection: 'things' });
  const documents = `${collections}/things/documents`;
  const ejson = '?incomingType=ejson&ContentType=ejson';
  const made = [
    { _id: 'a', n: 1, when: { $date: '2024-02-29T10:00:00Z' } },
    { _id: { $oid: '65e0a1f00000000000000001' }, n: 2 },
  ];
  await session.json('POST', documents + ejson, made);
  const listed = await session.json('GET', collections);
  const things = listed.find?.((one) => one.name === 'things');
  check('gui: collections with sizes', things?.stats.count === 2 && things.stats.size >= 0, listed);
  const all = await session.json('POST', `${documents}/filter${ejson}`, {});
  check('gui: all documents', number(all.count) === 2 && number(all.from) === 1 && number(all.to) === 2, all);
  check('gui: a date', same(all.documents?.[0].when, { $date: { $numberLong: '1709200800000' } }), all);
  const some = await session.json('POST', `${documents}/filter${ejson}&limit=1&skip=1`, {});
  check('gui: a page of them', some.documents?.length === 1 && number(some.from) === 2, some);
  const found = await session.json('POST', `${documents}/filter${ejson}`, { n: { $gt: 1 } });
  check('gui: a filter', found.documents?.length === 1 && found.documents[0]._id.$oid === made[1]._id.$oid, found);
  check('gui: a count', (await session.json('POST', `${documents}/count`, { n: 1 })).count === 1);
  await session.json('PUT', documents + ejson, { _id: 'a', n: 10 });
  check(
    'gui: a replaced one',
    (await session.json('POST', `${documents}/filter${ejson}`, { _id: 'a' })).documents?.[0].n.$numberInt === '10',
  );
  const sums = await session.json('POST', `${documents}/aggregate${ejson}`, [
    { $group: { _id: null, n: { $sum: '$n' } } },
  ]);
  check('gui: an aggregation', JSON.stringify(sums).includes('12'), sums);
  const stats = await session.json('GET', `${collections}/things/stats`);
  check('gui: statistics', Number(stats.count) === 2 && Number(stats.nindexes ?? 1) === 1, stats);
  await session.json('POST', `${documents}/delete${ejson}`, { _id: 'a' });
  check('gui: one less', (await session.json('POST', `${documents}/count`, {})).count === 1);
  await session.json('POST', `${collections}/delete`, { database: DB, collection: 'things' });
  const left = await session.json('GET', collections);
  check('gui: no collection', same(left, []), left);
  await session.json('DELETE', `/databases/${DB}`);
  check('gui: no database', !(await session.json('GET', '/databases')).databases?.some((one) => one.name === DB));
}
