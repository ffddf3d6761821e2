// Sessions, retryable writes and transactions through the Node driver: node replset.mjs URI (with replicaSet=...).
import { createRequire } from 'node:module';
import path from 'node:path';
const need = createRequire(path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'x.js'));
const { MongoClient } = need('mongodb');

let passed = 0;
const failed = [];
function check(name, ok, seen) {
  if (ok) passed++;
  else { failed.push(name); console.log(`FAILED ${name}`, seen ?? ''); }
}
const equal = (name, seen, expected) => check(name, JSON.stringify(seen) === JSON.stringify(expected), seen);
async function fails(name, code, f) {
  try { await f(); check(name, false, 'no error'); }
  catch (e) { check(name, e.code === code, `${e.code} ${e.message}`); return e; }
}

const client = new MongoClient(process.argv[2], { serverSelectionTimeoutMS: 5000, heartbeatFrequencyMS: 500 });
await client.connect();
const db = client.db('nagi_replset_node');
await db.dropDatabase();
const failpoint = (data) => db.admin().command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data });

// Retryable writes.
const c = db.collection('c');
await failpoint({ failCommands: ['insert'], closeConnection: true });
equal('insert again', (await c.insertOne({ _id: 1, n: 0 })).insertedId, 1);
await failpoint({ failCommands: ['update'], writeConcernError: { code: 91, errmsg: 'x' } });
equal('update answered', (await c.updateOne({ _id: 1 }, { $inc: { n: 1 } })).modifiedCount, 1);
equal('update once', (await c.findOne({ _id: 1 })).n, 1);
await failpoint({ failCommands: ['findAndModify'], writeConcernError: { code: 91, errmsg: 'x' } });
equal('findAndModify answered', (await c.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }, { returnDocument: 'after' })).n, 2);
equal('findAndModify once', (await c.findOne({ _id: 1 })).n, 2);
await failpoint({ failCommands: ['find'], closeConnection: true });
equal('read again', (await c.findOne({ _id: 1 })).n, 2);

// Transactions.
await client.withSession(async (session) => {
  const sum = await session.withTransaction(async () => {
    await c.insertOne({ _id: 2, n: 5 }, { session });
    await db.collection('new').insertOne({ _id: 1 }, { session });
    equal('not seen outside', await c.countDocuments({}), 1);
    equal('batches', (await c.find({}, { session, batchSize: 1 }).toArray()).length, 2);
    return (await c.aggregate([{ $group: { _id: null, n: { $sum: '$n' } } }], { session }).toArray())[0].n;
  }, { readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } });
  equal('result', sum, 7);
  equal('committed', [await c.countDocuments({}), await db.collection('new').countDocuments({})], [2, 1]);
  session.startTransaction();
  await c.deleteMany({}, { session });
  await session.abortTransaction();
  equal('aborted', await c.countDocuments({}), 2);
  session.startTransaction();
  await fails('duplicate', 11000, () => c.insertOne({ _id: 2 }, { session }));
  const gone = await fails('over', 251, () => c.findOne({}, { session }));
  check('transient', gone?.hasErrorLabel('TransientTransactionError'));
  await session.abortTransaction();
  let calls = 0;
  await session.withTransaction(async () => {
    if (++calls === 1) await failpoint({ failCommands: ['update'], errorCode: 112, errorLabels: ['TransientTransactionError'] });
    await c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session });
  });
  equal('begun again', [calls, (await c.findOne({ _id: 1 })).n], [2, 3]);
  await failpoint({ failCommands: ['commitTransaction'], closeConnection: true });
  await session.withTransaction(() => c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session }));
  equal('commit sent again', (await c.findOne({ _id: 1 })).n, 4);
});
const [a, b] = [client.startSession(), client.startSession()];
a.startTransaction();
b.startTransaction();
await c.updateOne({ _id: 1 }, { $set: { by: 'a' } }, { session: a });
const lost = await fails('conflict', 112, () => c.updateOne({ _id: 1 }, { $set: { by: 'b' } }, { session: b }));
check('conflict is transient', lost?.hasErrorLabel('TransientTransactionError'));
await a.commitTransaction();
equal('first writer won', (await c.findOne({ _id: 1 })).by, 'a');
await Promise.all([a.endSession(), b.endSession()]);

// Causal consistency.
const session = client.startSession({ causalConsistency: true });
await c.insertOne({ _id: 9 }, { session });
check('operation time', session.operationTime && session.clusterTime);
equal('reads its write', (await c.findOne({ _id: 9 }, { session, readConcern: { level: 'majority' } }))._id, 9);
await session.endSession();

// A change stream: events as they come, a resume behind the first, the end with its collection.
const watched = db.collection('watched');
const stream = watched.watch([{ $match: { operationType: { $ne: 'delete' } } }], { maxAwaitTimeMS: 100 });
const seen = [];
const reading = (async () => {
  for await (const event of stream) {
    seen.push(event);
    if (event.operationType === 'invalidate') break;
  }
})().catch((error) => seen.push({ operationType: String(error) }));
await stream.tryNext().catch(() => {});
await watched.insertOne({ _id: 1 });
await watched.updateOne({ _id: 1 }, { $set: { 'a.b': 1 } });
await watched.deleteOne({ _id: 1 });
await watched.drop();
await reading;
const kinds = seen.map((event) => event.operationType).filter((kind) => kind !== 'insert');
equal('events', kinds, ['update', 'drop', 'invalidate']);
const update = seen.find((event) => event.operationType === 'update');
equal('paths of an update', Object.keys(update?.updateDescription?.updatedFields ?? {}), ['a']);
const again = watched.watch([], { resumeAfter: update?._id });
equal('resumed', (await again.next()).operationType, 'delete');
await again.close();

await db.dropDatabase();
await client.close();
console.log(`node ${need('mongodb/package.json').version}, replica set: ${passed} assertions passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
