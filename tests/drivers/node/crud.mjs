// The typical operations of an application through the Node driver: node crud.mjs URI.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
// The modules are installed in the cache, not next to this file: NODE_MODULES_DIR names the folder.
const need = createRequire(path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'x.js'));
const { MongoClient, ObjectId, Long, Decimal128, Binary, BSONRegExp, Timestamp, MinKey, MaxKey, Code, UUID, BSON, Int32, Double } =
  need('mongodb');

const uri = process.argv[2];
let passed = 0;
const failed = [];
function check(name, ok, seen) {
  if (ok) passed++;
  else { failed.push(name); console.log(`FAILED ${name}`, seen ?? ''); }
}
function equal(name, seen, expected) {
  try { assert.deepStrictEqual(seen, expected); passed++; }
  catch { failed.push(name); console.log(`FAILED ${name}: saw`, seen, 'expected', expected); }
}
async function fails(name, code, f) {
  try { await f(); check(name, false, 'no error'); }
  catch (e) { check(name, e.code === code, `${e.code} ${e.message}`); return e; }
}
async function section(name, f) {
  try { await f(); } catch (e) { check(name, false, e.stack); }
}

const client = new MongoClient(uri, { serverSelectionTimeoutMS: 5000 });
await client.connect();
const db = client.db('nagi_node');
await db.dropDatabase();

await section('commands', async () => {
  const hello = await db.admin().command({ hello: 1 });
  check('writable', hello.isWritablePrimary === true);
  equal('wire version', hello.maxWireVersion, 25);
  equal('ping', (await db.command({ ping: 1 })).ok, 1);
  check('buildInfo', (await db.admin().buildInfo()).version.startsWith('8.0'));
  check('serverStatus', (await db.admin().serverStatus()).connections.current >= 1);
});

await section('insert and find', async () => {
  const c = db.collection('people');
  const r = await c.insertOne({ _id: 1, name: 'Ada', born: 1815 });
  check('insertOne', r.acknowledged && r.insertedId === 1);
  const m = await c.insertMany(Array.from({ length: 10 }, (_, i) => ({ _id: i + 2, name: `n${i}`, born: 1900 + i, n: { a: i % 2 } })));
  equal('insertMany', m.insertedCount, 10);
  equal('findOne', await c.findOne({ _id: 1 }), { _id: 1, name: 'Ada', born: 1815 });
  equal('findOne nothing', await c.findOne({ _id: 404 }), null);
  equal('range', await c.countDocuments({ born: { $gte: 1905 } }), 5);
  equal('dotted', await c.countDocuments({ 'n.a': 1 }), 5);
  equal('sort skip limit', (await c.find().sort({ born: -1 }).skip(1).limit(2).toArray()).map((d) => d._id), [10, 9]);
  equal('projection', await c.findOne({ _id: 2 }, { projection: { name: 1, _id: 0 } }), { name: 'n0' });
  equal('distinct', (await c.distinct('n.a')).sort(), [0, 1]);
  equal('estimated', await c.estimatedDocumentCount(), 11);
  equal('regex', await c.countDocuments({ name: /^N/i }), 10);
  equal('in', await c.countDocuments({ _id: { $in: [1, 5, 99] } }), 2);
  equal('nor', await c.countDocuments({ $nor: [{ _id: 1 }, { born: { $gt: 1901 } }] }), 2);
  check('ObjectId', (await c.insertOne({})).insertedId instanceof ObjectId);
});

await section('update and delete', async () => {
  const c = db.collection('updates');
  await c.insertMany(Array.from({ length: 5 }, (_, i) => ({ _id: i, a: i, l: [1, 2, 3] })));
  let r = await c.updateOne({ _id: 1 }, { $set: { b: 'x' }, $inc: { a: 5 }, $push: { l: 4 } });
  equal('updateOne', [r.matchedCount, r.modifiedCount], [1, 1]);
  equal('updated', await c.findOne({ _id: 1 }), { _id: 1, a: 6, l: [1, 2, 3, 4], b: 'x' });
  r = await c.updateMany({ a: { $lt: 5 } }, { $set: { low: true } });
  equal('updateMany', [r.matchedCount, r.modifiedCount], [4, 4]);
  r = await c.updateOne({ _id: 'up' }, { $setOnInsert: { s: 1 } }, { upsert: true });
  equal('upsert', [r.upsertedId, r.upsertedCount], ['up', 1]);
  r = await c.replaceOne({ _id: 'up' }, { only: 1 });
  equal('replaceOne', await c.findOne({ _id: 'up' }), { _id: 'up', only: 1 });
  equal('findOneAndUpdate', await c.findOneAndUpdate({ _id: 2 }, { $inc: { a: 100 } }, { returnDocument: 'after', projection: { a: 1 } }),
    { _id: 2, a: 102 });
  equal('findOneAndDelete', (await c.findOneAndDelete({ a: { $gte: 0 } }, { sort: { a: -1 } }))._id, 2);
  equal('findOneAndReplace', (await c.findOneAndReplace({ _id: 3 }, { z: 1 }))._id, 3);
  await c.updateOne({ _id: 4 }, { $set: { g: [{ k: 1 }, { k: 2 }] } });
  await c.updateOne({ _id: 4 }, { $set: { 'g.$[e].v': 9 } }, { arrayFilters: [{ 'e.k': 2 }] });
  equal('arrayFilters', (await c.findOne({ _id: 4 })).g, [{ k: 1 }, { k: 2, v: 9 }]);
  equal('deleteOne', (await c.deleteOne({ _id: 4 })).deletedCount, 1);
  equal('deleteMany', (await c.deleteMany({})).deletedCount, 4);
});

await section('bulk', async () => {
  const c = db.collection('bulk');
  const r = await c.bulkWrite([
    { insertOne: { document: { _id: 1 } } }, { insertOne: { document: { _id: 2 } } },
    { updateMany: { filter: {}, update: { $set: { a: 1 } } } },
    { updateOne: { filter: { _id: 9 }, update: { $set: { b: 1 } }, upsert: true } },
    { replaceOne: { filter: { _id: 1 }, replacement: { r: 1 } } }, { deleteOne: { filter: { _id: 2 } } },
  ]);
  equal('bulkWrite', [r.insertedCount, r.matchedCount, r.modifiedCount, r.upsertedCount, r.deletedCount], [2, 3, 3, 1, 1]);
  const e = await fails('unordered bulk', 11000, () =>
    c.insertMany([{ _id: 1 }, { _id: 50 }, { _id: 1 }, { _id: 51 }], { ordered: false }));
  equal('unordered result', [e.result.insertedCount, e.writeErrors.length], [2, 2]);
  const ops = Array.from({ length: 3000 }, (_, i) => ({ insertOne: { document: { _id: 1000 + i, v: i } } }));
  equal('3000 inserts', (await c.bulkWrite(ops, { ordered: false })).insertedCount, 3000);
});

await section('errors', async () => {
  const c = db.collection('errors');
  await c.createIndex({ u: 1, w: 1 }, { unique: true });
  await c.insertOne({ _id: 1, u: 1, w: 'a' });
  const e = await fails('duplicate key', 11000, () => c.insertOne({ _id: 2, u: 1, w: 'a' }));
  equal('keyPattern', e.keyPattern, { u: 1, w: 1 });
  equal('keyValue', e.keyValue, { u: 1, w: 'a' });
  check('message', e.message.includes('index: u_1_w_1 dup key: { u: 1, w: "a" }'), e.message);
  check('unknown command', (await fails('unknown command', 59, () => db.command({ nope: 1 }))).codeName === 'CommandNotFound');
  await fails('unknown argument', 40415, () => db.command({ count: 'errors', nope: 1 }));
  await fails('unknown operator', 2, () => c.findOne({ a: { $nope: 1 } }));
  await fails('unknown modifier', 9, () => c.updateOne({}, { $nope: { a: 1 } }));
  await fails('unknown stage', 40324, () => c.aggregate([{ $nope: {} }]).toArray());
  await fails('bad pipeline type', 14, () => db.command({ aggregate: 'errors', pipeline: 1, cursor: {} }));
  await fails('no cursor argument', 9, () => db.command({ aggregate: 'errors', pipeline: [] }));
  await fails('bad regex', 51091, () => c.findOne({ a: { $regex: '(' } }));
  await fails('empty update list', 16, () => db.command({ update: 'errors', updates: [] }));
});

await section('cursors', async () => {
  const c = db.collection('many');
  await c.insertMany(Array.from({ length: 12000 }, (_, i) => ({ _id: i, v: i % 100 })));
  let n = 0, last = -1, ordered = true;
  for await (const d of c.find().sort({ _id: 1 }).batchSize(333)) { n++; ordered &&= d._id > last; last = d._id; }
  check('batches in order', n === 12000 && ordered, n);
  equal('toArray', (await c.find({ v: 7 }).toArray()).length, 120);
  const cursor = c.find().batchSize(5);
  await cursor.next();
  await cursor.close();
  check('killed', cursor.killed);
  equal('parallel cursors', (await Promise.all([1, 2, 3, 4].map((v) => c.find({ v }).batchSize(10).toArray()))).map((a) => a.length),
    [120, 120, 120, 120]);
  equal('aggregate', await c.aggregate([{ $group: { _id: '$v', n: { $sum: 1 } } }, { $match: { _id: { $lt: 2 } } },
    { $sort: { _id: 1 } }]).toArray(), [{ _id: 0, n: 120 }, { _id: 1, n: 120 }]);
  const plan = await c.find({ _id: 5 }).explain();
  check('explain', JSON.stringify(plan.queryPlanner.winningPlan).match(/IDHACK|EXPRESS|IXSCAN/), plan.queryPlanner);
});

await section('types', async () => {
  const c = db.collection('types', { raw: true });
  const id = new ObjectId('64b7f0f0f0f0f0f0f0f0f0f0');
  const values = {
    double: new Double(1.25), int: new Int32(7), long: Long.fromString('9007199254740993'), string: 'h\u00e9llo \u{1f600}', nul: 'a\0b',
    doc: { a: { b: 1 } }, array: [1, ['x', null]], date: new Date(-1), nil: null, yes: true, no: false, id,
    binary: new Binary(Buffer.from([1, 2, 3]), 0), user: new Binary(Buffer.from('u'), 0x80), uuid: new UUID('00112233-4455-6677-8899-aabbccddeeff'),
    regex: new BSONRegExp('^a', 'im'), timestamp: new Timestamp({ t: 4000000000, i: 7 }), decimal: Decimal128.fromString('0.0001E-6100'),
    min: new MinKey(), max: new MaxKey(), code: new Code('f()'), scoped: new Code('f()', { x: 1 }), empty: {}, none: [],
  };
  let i = 0;
  for (const [name, v] of Object.entries(values)) {
    const doc = { _id: i++, v };
    await c.insertOne(doc);
    const bytes = await c.findOne({ _id: doc._id });
    check(`bytes of ${name}`, Buffer.from(bytes).equals(Buffer.from(BSON.serialize(doc))), bytes);
  }
  equal('type query', await db.collection('types').countDocuments({ v: { $type: 'decimal' } }), 1);
});

await section('indexes and admin', async () => {
  const c = db.collection('indexed');
  await c.insertMany(Array.from({ length: 200 }, (_, i) => ({ a: i % 10, t: [i, i + 1] })));
  equal('createIndex', await c.createIndex({ a: 1, t: -1 }), 'a_1_t_-1');
  equal('indexes', (await c.indexes()).map((x) => x.name), ['_id_', 'a_1_t_-1']);
  check('IXSCAN', JSON.stringify(await c.find({ a: 4 }).explain()).includes('IXSCAN'));
  equal('hint', (await c.find({ a: 4 }).hint({ a: 1, t: -1 }).toArray()).length, 20);
  await c.dropIndex('a_1_t_-1');
  equal('dropIndex', await c.indexExists('a_1_t_-1'), false);
  await db.createCollection('made');
  check('listCollections', (await db.listCollections({ name: 'made' }).toArray()).length === 1);
  await db.renameCollection('made', 'renamed');
  equal('drop', await db.dropCollection('renamed'), true);
  check('dbStats', (await db.stats()).objects >= 200);
  check('databases', (await db.admin().listDatabases()).databases.some((d) => d.name === 'nagi_node'));
});

await section('compression', async () => {
  for (const name of ['zlib', 'snappy']) {
    const packed = new MongoClient(uri, { compressors: [name] });
    const c = packed.db('nagi_node').collection('packed');
    await c.insertOne({ _id: name, x: 'y'.repeat(100000) });
    equal(name, (await c.findOne({ _id: name })).x.length, 100000);
    await packed.close();
  }
});

await section('sessions', async () => {
  await client.withSession(async (session) => {
    equal('session', await db.collection('people').countDocuments({ _id: 1 }, { session }), 1);
  });
  const many = await Promise.all(Array.from({ length: 50 }, (_, i) => db.collection('par').insertOne({ _id: i })));
  equal('parallel inserts', many.length, 50);
});

await db.dropDatabase();
await client.close();
console.log(`node ${need('mongodb/package.json').version}: ${passed} assertions passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
