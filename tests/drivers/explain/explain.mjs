// Checks the fields of explain that Compass reads, with the parser that Compass uses: node explain.mjs URI.
import { createRequire } from 'node:module';
import path from 'node:path';
// The modules are installed in the cache, not next to this file: NODE_MODULES_DIR names the folder.
const need = createRequire(path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'x.js'));
const { MongoClient } = need('mongodb');
const { ExplainPlan } = need('@mongodb-js/explain-plan-helper');

let passed = 0;
const failed = [];
function check(name, ok, seen) {
  if (ok) passed++;
  else { failed.push(name); console.log(`FAILED ${name}`, JSON.stringify(seen ?? null)); }
}

const client = new MongoClient(process.argv[2], { serverSelectionTimeoutMS: 5000 });
await client.connect();
const db = client.db('explained');
await db.dropDatabase();
const c = db.collection('c');
await c.insertMany(Array.from({ length: 1000 }, (_, i) => ({
  _id: i, a: i % 10, b: i, u: `u${i}`, tags: [i % 3, i % 5], s: 'x'.repeat(100),
  legacy: [i % 90, i % 45], loc: { type: 'Point', coordinates: [i % 90, i % 45] }, t: `word${i % 7} hello`, w: { x: i % 4 },
})));
await c.createIndexes([
  { key: { a: 1, b: 1 } }, { key: { u: 1 }, unique: true }, { key: { tags: 1 } }, { key: { t: 'text' } },
  { key: { loc: '2dsphere' } }, { key: { legacy: '2d' } }, { key: { h: 'hashed' } }, { key: { 'w.$**': 1 } },
  { key: { p: 1 }, partialFilterExpression: { p: { $gt: 5 } } },
]);
await db.createCollection('clustered', { clusteredIndex: { key: { _id: 1 }, unique: true } });
await db.collection('clustered').insertMany([{ _id: 1 }, { _id: 2 }, { _id: 3 }]);
await db.createCollection('view', { viewOn: 'c', pipeline: [{ $match: { a: 1 } }] });

// The values that the parser must derive: returned, keys, documents, kind of access; then names of indexes and
// flags.
function derived(name, reply, [n, keys, docs, type], indexes = [], more = {}) {
  const plan = new ExplainPlan(JSON.parse(JSON.stringify(reply)));
  const seen = {
    n: plan.nReturned, keys: plan.totalKeysExamined, docs: plan.totalDocsExamined, type: plan.indexType,
    indexes: plan.usedIndexes.map((used) => used.index).sort(),
    inMemorySort: plan.inMemorySort, isMultiKey: plan.isMultiKey, isCollectionScan: plan.isCollectionScan,
    isCovered: plan.isCovered,
  };
  const want = {
    n, keys, docs, type, indexes: [...indexes].sort(), inMemorySort: false, isMultiKey: false,
    isCollectionScan: type === 'UNAVAILABLE' && docs > 0, isCovered: docs === 0, ...more,
  };
  check(name, JSON.stringify(seen) === JSON.stringify(want), { seen, want });
  check(`${name}: time`, Number.isInteger(plan.executionTimeMillis) && plan.executionTimeMillis >= 0, plan.executionTimeMillis);
}
const find = async (name, filter, options, expected, indexes, more) =>
  derived(name, await c.find(filter, options).explain('executionStats'), expected, indexes, more);
const aggregate = async (name, pipeline, expected, indexes, more, options = {}) =>
  derived(name, await c.aggregate(pipeline, options).explain('executionStats'), expected, indexes, more);

await find('by _id', { _id: 5 }, {}, [1, 1, 1, 'INDEX'], ['_id_']);
await find('by a unique index', { u: 'u5' }, {}, [1, 1, 1, 'INDEX'], ['u_1']);
await find('by no index', { s: 1 }, {}, [0, 0, 1000, 'UNAVAILABLE']);
await find('by an index', { a: 3 }, {}, [100, 100, 100, 'INDEX'], ['a_1_b_1']);
await find('covered', { a: 3 }, { projection: { _id: 0, a: 1, b: 1 } }, [100, 100, 0, 'COVERED'], ['a_1_b_1']);
await find('a condition on keys', { a: 3, b: { $mod: [20, 3] } }, {}, [50, 100, 50, 'INDEX'], ['a_1_b_1']);
await find('an expression', { $expr: { $eq: ['$a', 3] } }, {}, [100, 100, 100, 'INDEX'], ['a_1_b_1']);
await find('skipped', { a: 3 }, { skip: 90 }, [10, 100, 10, 'INDEX'], ['a_1_b_1']);
await find('sorted in memory', { a: 3 }, { sort: { s: 1 } }, [100, 100, 100, 'INDEX'], ['a_1_b_1'], { inMemorySort: true });
await find('sorted by the index', { a: 3 }, { sort: { b: -1 } }, [100, 100, 100, 'INDEX'], ['a_1_b_1']);
await find('multikey', { tags: 4 }, {}, [200, 200, 200, 'INDEX'], ['tags_1'], { isMultiKey: true });
await find('hashed', { h: 3 }, {}, [0, 0, 0, 'COVERED'], ['h_hashed']);
await find('wildcard', { 'w.x': 3 }, {}, [250, 250, 250, 'INDEX'], ['w.$**_1']);
await find('partial', { p: 7 }, {}, [0, 0, 0, 'COVERED'], ['p_1']);
await find('branches', { $or: [{ a: 1 }, { u: 'u3' }] }, {}, [101, 101, 101, 'INDEX'], ['a_1_b_1', 'u_1']);
await find('text', { $text: { $search: 'word1' } }, {}, [143, 143, 143, 'INDEX'], ['t_text'], { isMultiKey: true });
const near = new ExplainPlan(JSON.parse(JSON.stringify(await c.find(
  { loc: { $near: { $geometry: { type: 'Point', coordinates: [3, 3] } } } }).limit(5).explain('executionStats'))));
check('by distance', near.nReturned === 5 && near.usedIndexes[0]?.index === 'loc_2dsphere' && near.totalDocsExamined >= 5, near.usedIndexes);

await aggregate('group', [{ $match: { a: 3 } }, { $group: { _id: '$b', n: { $sum: 1 } } }], [100, 100, 0, 'COVERED'], ['a_1_b_1']);
await aggregate('lookup', [{ $match: { a: 3 } }, { $lookup: { from: 'c', localField: 'u', foreignField: 'u', as: 'x' } }, { $unwind: '$x' }],
  [100, 100, 100, 'INDEX'], ['a_1_b_1', 'u_1']);
await aggregate('all in the plan', [{ $match: { a: 3 } }, { $sort: { b: 1 } }, { $limit: 3 }], [3, 3, 3, 'INDEX'], ['a_1_b_1']);
await aggregate('a condition behind a projection', [{ $project: { k: '$u' } }, { $match: { k: 'u7' } }], [1, 1, 1, 'INDEX'], ['u_1']);
await aggregate('facet', [{ $match: { a: 3 } }, { $facet: { n: [{ $count: 'n' }] } }], [1, 100, 100, 'INDEX'], ['a_1_b_1']);
derived('view', await db.collection('view').find({ b: { $gt: 500 } }).explain('executionStats'), [50, 50, 50, 'INDEX'], ['a_1_b_1']);
derived('clustered by _id', await db.collection('clustered').find({ _id: 2 }).explain('executionStats'), [1, 0, 1, 'CLUSTERED'],
  []);
derived('clustered range', await db.collection('clustered').find({ _id: { $gt: 1 } }).explain('executionStats'), [2, 0, 2, 'CLUSTERED'],
  []);

// Documents that are only counted; distinct values; predicates evaluated on keys; the join method of a lookup.
await aggregate('counted', [{ $match: { a: 3 } }, { $group: { _id: null, n: { $sum: 1 } } }], [1, 100, 0, 'COVERED'], ['a_1_b_1']);
// The parser does not know DISTINCT_SCAN, so it names no index.
await aggregate('different values', [{ $group: { _id: '$a' } }], [10, 10, 0, 'UNAVAILABLE'], []);
const tested = await c.find({ a: 3, b: { $mod: [20, 3] } }).explain('executionStats');
check('a filter on keys', tested.queryPlanner.winningPlan.inputStage.filter?.b !== undefined, tested.queryPlanner.winningPlan);
for (const [field, strategy, most] of [['b', 'HashJoin', 2100], ['u', 'IndexedLoopJoin', 100]]) {
  const reply = await c.aggregate([
    { $match: { a: 3 } }, { $lookup: { from: 'c', localField: field, foreignField: field, as: 'x' } },
  ]).explain('executionStats');
  const lookup = reply.stages.find((stage) => stage.$lookup);
  check(`lookup: ${strategy}`, lookup.strategy === strategy && Number(lookup.totalDocsExamined) <= most, lookup);
}

// A sort and a group report that they spilled to disk.
await client.db('admin').command({ setParameter: 1, internalDocumentSourceGroupMaxMemoryBytes: 20000 });
const spilled = await c.aggregate([{ $group: { _id: '$u', n: { $push: '$s' } } }], { allowDiskUse: true }).explain('executionStats');
const group = spilled.stages.find((stage) => stage.$group);
check('a group on disk', group.usedDisk && Number(group.spills) > 0 && Number(group.spilledRecords) === 1000 && Number(group.nReturned) === 1000, group);
await client.db('admin').command({ setParameter: 1, internalDocumentSourceGroupMaxMemoryBytes: 104857600 });

// Every command at every verbosity has the fields that tools read.
const stages = (plan) => [plan.stage, ...[plan.inputStage, ...(plan.inputStages ?? [])].filter(Boolean).flatMap(stages)];
for (const [command, top] of [
  [{ find: 'c', filter: { a: 1 } }, 'FETCH'],
  [{ aggregate: 'c', pipeline: [{ $match: { a: 1 } }], cursor: {} }, 'FETCH'],
  [{ count: 'c', query: { a: 1 } }, 'COUNT'],
  [{ distinct: 'c', key: 'u' }, 'PROJECTION_COVERED'],
  [{ update: 'c', updates: [{ q: { _id: 1 }, u: { $set: { z: 1 } } }] }, 'EXPRESS_UPDATE'],
  [{ update: 'c', updates: [{ q: { a: 1 }, u: { $set: { z: 1 } }, multi: true }] }, 'UPDATE'],
  [{ delete: 'c', deletes: [{ q: { _id: 1 }, limit: 1 }] }, 'EXPRESS_DELETE'],
  [{ delete: 'c', deletes: [{ q: { a: 1 }, limit: 0 }] }, 'DELETE'],
  [{ findAndModify: 'c', query: { a: 1 }, remove: true }, 'DELETE'],
]) {
  for (const verbosity of ['queryPlanner', 'executionStats', 'allPlansExecution']) {
    const name = `${Object.keys(command)[0]} ${top} ${verbosity}`;
    const reply = await db.command({ explain: command, verbosity });
    const { winningPlan } = reply.queryPlanner;
    check(name, stages(winningPlan)[0] === top && reply.explainVersion === '1' && reply.serverInfo.version && reply.command, winningPlan);
    check(`${name}: parsed`, new ExplainPlan(JSON.parse(JSON.stringify(reply))).namespace === 'explained.c');
    check(`${name}: figures`, (reply.executionStats !== undefined) === (verbosity !== 'queryPlanner'), reply.executionStats);
    check(`${name}: all plans`, Array.isArray(reply.executionStats?.allPlansExecution) === (verbosity === 'allPlansExecution'));
  }
}
check('nothing was written', (await c.countDocuments({})) === 1000 && (await c.countDocuments({ z: 1 })) === 0);
await client.close();
console.log(`explain: ${passed} checks passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
