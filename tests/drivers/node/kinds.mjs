// Tests each kind of index through the Node driver, which encodes options in its own way: node kinds.mjs URI.
//
// Each index is built, named by explain, compared with a scan, maintained by writes, listed with its options,
// changed by collMod (hidden, expireAfterSeconds) and dropped. The server's `ttlMonitorSleepSecs` is 1.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
const need = createRequire(path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'x.js'));
const { MongoClient, Long, Double } = need('mongodb');

let passed = 0;
const failed = [];
function check(name, ok, seen) {
  if (ok) passed++;
  else { failed.push(name); console.log(`FAILED ${name}`, JSON.stringify(seen)); }
}
function equal(name, seen, expected) {
  try { assert.deepStrictEqual(seen, expected); passed++; }
  catch { failed.push(name); console.log(`FAILED ${name}: saw`, JSON.stringify(seen), 'expected', JSON.stringify(expected)); }
}
async function fails(name, code, f) {
  try { await f(); check(name, false, 'no error'); }
  catch (e) { check(name, e.code === code, `${e.code} ${e.message}`); }
}
async function until(condition) {
  const end = Date.now() + 60000;
  while (!(await condition())) {
    if (Date.now() > end) return condition();
    await new Promise((done) => setTimeout(done, 50));
  }
  return true;
}

const NOCASE = { locale: 'en', strength: 2 };
const POLYGON = { type: 'Polygon', coordinates: [[[0, 0], [40, 0], [40, 30], [0, 30], [0, 0]]] };
// Name, keys, options, the options in listIndexes, a query that it serves, options of the query.
const KINDS = [
  ['ascending', { n: 1 }, {}, {}, { n: { $gte: 20, $lt: 60 } }],
  ['descending, given as a text', 'n', {}, { key: { n: 1 } }, { n: { $lt: 30 } }],
  ['compound, given as pairs', [['g', 1], ['n', -1]], {}, { key: { g: 1, n: -1 } }, { g: 3, n: { $lt: 150 } }],
  ['compound, given as a map', new Map([['g', -1], ['u', 1]]), {}, { key: { g: -1, u: 1 } }, { g: 2 }],
  ['a long as the direction', { n: Long.fromNumber(1) }, {}, { key: { n: 1 } }, { n: { $lt: 30 } }],
  ['unique', { u: 1 }, { unique: true, name: 'mine' }, { unique: true, name: 'mine' }, { u: { $lte: 17 } }],
  ['sparse', { maybe: 1 }, { sparse: true }, { sparse: true }, { maybe: { $gt: 2 } }],
  ['partial', { n: 1 }, { partialFilterExpression: { g: { $gte: 3 } } }, { partialFilterExpression: { g: { $gte: 3 } } }, { n: { $gt: 50 }, g: { $gte: 4 } }],
  ['hashed', { s: 'hashed' }, {}, { key: { s: 'hashed' } }, { s: 'name7' }],
  ['compound hashed', { g: 1, s: 'hashed' }, {}, {}, { g: 2, s: 'name7' }],
  ['collated', { s: 1 }, { collation: NOCASE }, {}, { s: 'NAME7' }, { collation: NOCASE }],
  ['wildcard', { '$**': 1 }, {}, { key: { '$**': 1 } }, { 'e.f': 5 }],
  ['wildcard of some', { '$**': 1 }, { wildcardProjection: { e: 1 } }, { wildcardProjection: { e: 1 } }, { 'e.f': { $gte: 17 } }],
  ['compound wildcard', { g: 1, 'e.$**': 1 }, {}, {}, { g: 1, 'e.f': { $gt: 3 } }],
  ['text', { t: 'text' }, { default_language: 'english', weights: { t: 3 } }, { weights: { t: 3 }, default_language: 'english', textIndexVersion: 3 },
    { $text: { $search: 'running -dogs' } }],
  ['2dsphere', { at: '2dsphere' }, {}, { '2dsphereIndexVersion': 3 }, { at: { $geoWithin: { $geometry: POLYGON } } }],
  ['2d', { flat: '2d' }, { bits: 20, min: -100, max: 100 }, { bits: 20, min: -100, max: 100 }, { flat: { $geoWithin: { $box: [[0, 0], [25, 25]] } } }],
  ['ttl', { when: 1 }, { expireAfterSeconds: 1e8 }, { expireAfterSeconds: 1e8 }, { when: { $gt: new Date('2026-01-09') } }],
  ['hidden at first', { n: 1 }, { hidden: true }, { hidden: true }, { n: { $gte: 20, $lt: 60 } }],
];

function make(i) {
  const doc = {
    _id: i, n: i, g: i % 7, u: i * 3, s: (i % 2 ? 'name' : 'NAME') + (i % 20), e: { f: i % 19, h: [i % 3] },
    t: ['the running foxes', 'a lazy dog runs', 'dogs', 'fox'][i % 4], at: [i % 90, i % 50], flat: [i % 50, i % 40],
    when: new Date(Date.UTC(2026, 0, 1, i)),
  };
  if (i % 3) doc.maybe = i % 6;
  return doc;
}
const ids = async (cursor) => (await cursor.toArray()).map((d) => d._id).sort((a, b) => a - b);
const planOf = async (cursor) => JSON.stringify((await cursor.explain()).queryPlanner.winningPlan);

async function everyKind(db) {
  for (const [name, keys, options, shown, query, how = {}] of KINDS) {
    for (const clustered of [false, true]) {
      const what = name + (clustered ? ', clustered' : '');
      const c = await db.createCollection(what.replaceAll(/[ ,]/g, '_'), clustered ? { clusteredIndex: { key: { _id: 1 }, unique: true } } : {});
      await c.insertMany(Array.from({ length: 200 }, (_, i) => make(i)));
      // Text search has no equivalent scan: these words have obvious stems.
      const scan = async () => ('$text' in query
        ? ids(c.find({ t: /run/i, $nor: [{ t: /dog/ }] }))
        : ids(c.find(query, { ...how, hint: { $natural: 1 } })));
      const built = await c.createIndex(keys, options);
      const listed = (await c.indexes()).find((one) => one.name === built);
      for (const [field, value] of Object.entries(shown)) equal(`${what}: ${field} is listed`, listed?.[field], value);
      if (options.collation) check(`${what}: its collation`, listed.collation.locale === 'en' && listed.collation.strength === 2, listed);
      if (!options.hidden) check(`${what}: used`, (await planOf(c.find(query, how))).includes(`"indexName":"${built}"`), built);
      const found = await ids(c.find(query, how));
      check(`${what}: finds some`, found.length > 0 && found.length < 200, found.length);
      equal(`${what}: as a scan`, found, await scan());
      equal(`${what}: counted`, await c.countDocuments(query, how), found.length);
      equal(`${what}: updated`, (await c.updateMany(query, { $set: { seen: 1 } }, how)).modifiedCount, found.length);
      await c.deleteMany({ _id: { $mod: [3, 0] } });
      await c.insertMany(Array.from({ length: 60 }, (_, i) => make(200 + i)));
      await c.updateMany({ n: { $gte: 240 } }, { $inc: { n: -200, 'e.f': 1 }, $set: { s: 'name7', t: 'the running foxes' } });
      equal(`${what}: kept by writes`, await ids(c.find(query, how)), await scan());
      if (!clustered) await hideAndShow(db, c, what, built, query, how, options.hidden === true);
      const valid = await db.command({ validate: c.collectionName, full: true });
      check(`${what}: valid`, valid.valid && Object.keys(valid.keysPerIndex).length === 2, valid);
      await c.dropIndex(built);
      check(`${what}: gone`, !(await c.indexExists(built)));
      await c.drop();
    }
  }
}

// collMod hides and unhides by name and by keys: a hidden index serves no query, and writes maintain it.
async function hideAndShow(db, c, what, built, query, how, hidden) {
  const isText = '$text' in query;
  const index = { name: built };
  if (!hidden) {
    equal(`${what}: hides`, (await db.command({ collMod: c.collectionName, index: { ...index, hidden: true } })).hidden_new, true);
  }
  check(`${what}: is listed as hidden`, (await c.indexes()).find((one) => one.name === built).hidden === true);
  if (isText) await fails(`${what}: no text search`, 291, () => c.find(query).toArray());
  else check(`${what}: not used`, !(await planOf(c.find(query, how))).includes(`"indexName":"${built}"`));
  if (!isText) await fails(`${what}: no hint`, 2, () => c.find(query, { ...how, hint: built }).toArray());
  await c.insertOne(make(300));
  equal(`${what}: shows`, (await db.command({ collMod: c.collectionName, index: { ...index, hidden: false } })).hidden_new, false);
  const listed = (await c.indexes()).find((one) => one.name === built);
  check(`${what}: not listed as hidden`, listed.hidden === undefined, listed);
  check(`${what}: used again`, (await planOf(c.find(query, how))).includes(`"indexName":"${built}"`));
  equal(`${what}: was kept`, await ids(c.find(query, how)), isText ? await ids(c.find({ t: /run/i, $nor: [{ t: /dog/ }] }))
    : await ids(c.find(query, { ...how, hint: { $natural: 1 } })));
}

async function expiring(db) {
  const past = new Date(Date.now() - 3600_000);
  const future = new Date(Date.now() + 3600_000);
  const c = db.collection('expiring');
  await c.insertMany([{ _id: 1, at: past }, { _id: 2, at: future }, { _id: 3 }, { _id: 4, at: [future, past] }]);
  await c.createIndex({ at: 1 }, { expireAfterSeconds: 7200 });
  const passes = async () => (await db.admin().serverStatus()).metrics.ttl.passes;
  const first = Number(await passes());
  check('rounds go on', await until(async () => Number(await passes()) > first + 1));
  equal('not yet', await c.countDocuments({}), 4);
  for (const [seconds, old] of [[Long.fromNumber(7000), 7200], [new Double(6999.5), 7000]]) {
    const changed = await db.command({ collMod: 'expiring', index: { keyPattern: { at: 1 }, expireAfterSeconds: seconds } });
    equal(`collMod to ${seconds}`, Number(changed.expireAfterSeconds_old), old);
  }
  await fails('a negative time', 72, () => db.command({ collMod: 'expiring', index: { keyPattern: { at: 1 }, expireAfterSeconds: -1 } }));
  await fails('a time that is a text', 72, () => db.command({ collMod: 'expiring', index: { keyPattern: { at: 1 }, expireAfterSeconds: '5' } }));
  await fails('no such index', 27, () => db.command({ collMod: 'expiring', index: { keyPattern: { no: 1 }, expireAfterSeconds: 5 } }));
  await db.command({ collMod: 'expiring', index: { keyPattern: { at: 1 }, expireAfterSeconds: 60 } });
  check('expired once collMod says so', await until(async () => (await ids(c.find())).join() === '2,3'), await ids(c.find()));
  const plain = db.collection('plain');
  await plain.insertOne({ _id: 1, at: past });
  await plain.createIndex({ at: 1 });
  const made = await db.command({ collMod: 'plain', index: { name: 'at_1', expireAfterSeconds: 60 } });
  equal('a plain index becomes one that expires', [made.expireAfterSeconds_old, Number(made.expireAfterSeconds_new)], [undefined, 60]);
  check('and expires', await until(async () => (await plain.countDocuments({})) === 0));
  const s = await db.createCollection('sessions', { clusteredIndex: { key: { _id: 1 }, unique: true }, expireAfterSeconds: 7200 });
  await s.insertMany([{ _id: past }, { _id: future }]);
  await db.command({ collMod: 'sessions', expireAfterSeconds: 60 });
  check('a clustered collection expires', await until(async () => (await s.countDocuments({})) === 1));
  await db.command({ collMod: 'sessions', expireAfterSeconds: 'off' });
  const [listed] = await db.listCollections({ name: 'sessions' }).toArray();
  equal('no longer', listed.options.expireAfterSeconds, undefined);
}

const client = new MongoClient(process.argv[2], { serverSelectionTimeoutMS: 5000 });
const db = client.db('nagi_node_kinds');
await db.dropDatabase();
for (const part of [everyKind, expiring]) {
  try { await part(db); } catch (e) { check(part.name, false, e.stack); }
}
await db.dropDatabase();
await client.close();
console.log(`node ${need('mongodb/package.json').version}, kinds of indexes: ${passed} assertions passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
