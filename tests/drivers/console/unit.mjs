// Tests the parts of the console that need no browser: node unit.mjs ASSETS.
import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';

const assets = process.env.ASSETS ?? path.join(import.meta.dirname, '../../../crates/console/assets');
const load = (name) => import(pathToFileURL(path.join(assets, name)).href);
const format = await load('format.js');
const ejson = await load('ejson.js');
const slow = await load('slow_groups.js');
const advised = await load('slow_advice.js');
const growth = await load('growth.js');
const indexes = await load('indexes.js');
const diskmap = await load('diskmap.js');
const sizes = await load('sizes.js');
const oplog = await load('oplog.js');
const activity = await load('activity.js');
const trial = await load('trial.js');
const advise = await load('advise.js');
const { parse, text, typed, soften } = ejson;

test('numbers have three digits and a unit', () => {
  for (const [of, n, wanted] of [
    ['count', 0, '0'],
    ['count', 999, '999'],
    ['count', 1000, '1 k'],
    ['count', 12345, '12.3 k'],
    ['count', 999999, '1 M'],
    ['count', null, '-'],
    ['rate', 12345, '12.3 k/s'],
    ['rate', 0.5, '0.5/s'],
    ['bytes', 4.2 * 2 ** 30, '4.2 GiB'],
    ['bytes', 1023, '1023 B'],
    ['bytes', 1024, '1 KiB'],
    ['micros', 1300, '1.3 ms'],
    ['micros', 3, '3 us'],
    ['micros', 2500000, '2.5 s'],
    ['duration', 61000, '1 min 1 s'],
    ['duration', 90000000, '1 d 1 h'],
    ['percent', 0.1234, '12.3 %'],
    ['percent', 1, '100 %'],
    ['count', Number.NaN, '-'],
    ['micros', undefined, '-'],
    ['bytes', -5, '-5 B'],
  ])
    assert.equal(format[of](n), wanted, `${of}(${n})`);
});

test('extended JSON is read and written without loss', () => {
  for (const source of [
    '{"b": 1, "2": 1, "1": 2}',
    '{"n": 9223372036854775807, "d": 1.0, "e": 1e400, "z": -0.0}',
    '{"__proto__": {"x": [true, false, null]}}',
    '["\\u0000", "\\"<img>"]',
    '{}',
    '[]',
    '{"constructor": {"prototype": 1}}',
  ])
    assert.equal(text(parse(source)), source);
  assert.equal(parse('{"a": 1, "a": 2}').duplicates, true);
  for (const bad of ['', '{', '{"a" 1}', '[1,]', '01', '{"a": undefined}', '[1] 2', '"\n"', '['.repeat(500)])
    assert.throws(() => parse(bad), SyntaxError, bad);
});

test('canonical numbers become literals of the same type', () => {
  const source =
    '{"i": {"$numberInt": "5"}, "d": {"$numberDouble": "5"}, "p": {"$numberDouble": "0.1"}, "n": {"$numberDouble": "NaN"}, ' +
    '"l": {"$numberLong": "5"}, "t": {"$date": {"$numberLong": "0"}}, "a": [{"$numberInt": "1"}]}';
  assert.equal(
    text(soften(parse(source))),
    '{"i": 5, "d": 5.0, "p": 0.1, "n": {"$numberDouble": "NaN"}, "l": {"$numberLong": "5"}, "t": {"$date": "1970-01-01T00:00:00.000Z"}, "a": [1]}',
  );
});

test('typed text is one object or array, and nothing after it', () => {
  for (const good of [
    '{}',
    '{a: 1}',
    "{a: '}'}",
    '{a: "\\"}"}',
    '{a: /[}]"/i}',
    '{a: {b: [ISODate("2026-01-01")]}}',
    '{a: 4 / 2}',
  ])
    assert.equal(typed(good), good);
  assert.equal(typed(''), '{}');
  assert.equal(typed(' ', '['), '[]');
  assert.equal(typed('{a: 1};'), '{a: 1}');
  for (const bad of ['{a: 1}, "limit": 0', '{a: 1}}', '{a: (1}', '{a: "', 'a', '[1]', '{a: /x}', '{a: 1} // {'])
    assert.throws(() => typed(bad), SyntaxError, bad);
});

const shape = (more = {}) => ({
  ns: 'shop.orders',
  operation: 'find',
  shape: '{ a: ? }',
  planCacheShapeHash: '0000000A',
  count: 4,
  totalMicros: 800000,
  slowestMicros: 300000,
  keysExamined: 0,
  docsExamined: 1000,
  nReturned: 10,
  sortsInMemory: true,
  plans: ['COLLSCAN', 'IXSCAN { a: 1 }'],
  appNames: ['shop'],
  lastMs: 1700000000000,
  ...more,
});
const { planCacheShapeHash: _, ...unplanned } = shape({
  operation: 'insert',
  shape: '',
  docsExamined: 0,
  nReturned: 0,
});
const rows = (...shapes) => slow.groups(parse(JSON.stringify({ slowms: 100, leftOut: 0, shapes })));

test('slow operations are the shapes of the server', () => {
  const [found, insert] = rows(shape(), unplanned);
  assert.deepEqual(
    [found.count, found.totalUs, found.averageUs, found.slowestUs, found.perReturned, found.plans.length],
    [4, 800000, 200000, 300000, 100, 2],
  );
  assert.equal(slow.pathOf(found), 'api/slow?ns=shop.orders&operation=find&planCacheShapeHash=0000000A');
  const [piped] = rows(shape({ stagesHash: '0000000B' }));
  assert.equal(slow.pathOf(piped), `${slow.pathOf(found)}&stagesHash=0000000B`);
  assert.notEqual(piped.key, found.key);
  assert.equal(slow.pathOf(rows(shape({ ns: 'a.b&c=%' }))[0]).split('&')[0], 'api/slow?ns=a.b%26c%3D%25');
  assert.deepEqual([insert.hash, insert.perReturned], ['', null]);
  assert.deepEqual(slow.groups(parse('{}')), []);
  assert.notEqual(found.key, insert.key);
});

test('the slowest command is explained as it was sent', () => {
  const explained = (group, command) => slow.explainText(slow.requestOf(group, soften(parse(command))));
  const [find] = rows(shape());
  assert.equal(
    explained(
      find,
      '{"find": "orders", "filter": {"a": {"$numberInt": "2"}, "r": {"$numberLong": "5"}}, "lsid": {"id": 1}}',
    ),
    '{"explain": {"find": "orders", "filter": {"a": 2, "r": {"$numberLong": "5"}}}, "verbosity": "executionStats"}',
  );
  const [update] = rows(shape({ operation: 'update', ns: 'shop.other' }));
  assert.equal(
    explained(update, '{"q": {"x": {"$gte": 1}}, "u": {"$set": {"y": 1}}, "multi": true}'),
    '{"explain": {"update": "other", "updates": [{"q": {"x": {"$gte": 1}}, "u": {"$set": {"y": 1}}, "multi": true}]}, "verbosity": "executionStats"}',
  );
  assert.equal(
    explained(update, '{"update": 0, "filter": {"x": 1}, "updateMods": {"$set": {"y": 1}}, "multi": false}'),
    '{"explain": {"update": "other", "updates": [{"q": {"x": 1}, "u": {"$set": {"y": 1}}, "multi": false}]}, "verbosity": "executionStats"}',
  );
  const [remove] = rows(shape({ operation: 'remove', ns: 'shop.other' }));
  assert.equal(
    explained(remove, '{"delete": 0, "filter": {"x": 1}, "multi": true}'),
    '{"explain": {"delete": "other", "deletes": [{"q": {"x": 1}, "limit": 0}]}, "verbosity": "executionStats"}',
  );
  const [reduce] = rows(shape({ operation: 'mapreduce' }));
  assert.equal(
    explained(reduce, '{"mapreduce": "orders", "map": {"$code": "m"}, "out": {"inline": 1}, "comment": 1}'),
    '{"explain": {"mapreduce": "orders", "map": {"$code": "m"}, "out": {"inline": 1}}, "verbosity": "executionStats"}',
  );
  const why = (group, command) => slow.unexplained(slow.requestOf(group, parse(command)));
  assert.equal(why(reduce, '{"mapReduce": "orders"}'), null);
  assert.match(why(find, '{"$truncated": "{find: ..."}'), /cut/);
  assert.match(why(rows(unplanned)[0], '{"insert": "orders"}'), /explain does not take 'insert'/);
  assert.match(why(rows(shape({ ns: 'shop.$cmd' }))[0], '{"ping": 1}'), /no collection/);
  assert.equal(explained(find, '{"$truncated": "{find: ..."}'), null);
  assert.equal(explained(rows(unplanned)[0], '{"insert": "orders"}'), null);
  assert.equal(slow.requestOf(rows(shape({ ns: 'shop.$cmd' }))[0], parse('{"ping": 1}')), null);
  assert.equal(slow.requestOf(find, null), null);
});

test('trials and advice as texts', () => {
  const key = new Map([
    ['a', 1],
    ['0', -1],
  ]);
  assert.equal(
    trial.trialText('{"explain": {"find": "c"}}', [
      new Map([
        ['key', key],
        ['name', 'n'],
      ]),
    ]),
    '{"explain": {"find": "c"}, "hypotheticalIndexes": [{"key": {"a": 1, "0": -1}, "name": "n"}], "maxTimeMS": 30000}',
  );
  const side = (planSummary, keys, docs, sortsInMemory) => ({
    planSummary,
    estimate: { totalKeysExamined: keys, totalDocsExamined: docs, sortsInMemory },
  });
  const hypothetical = {
    indexes: [{ used: true, expectedSizeBytes: 2048 }],
    sample: { documents: 10, ofDocuments: 9000 },
    present: side('COLLSCAN', 0, 9000, true),
    withIndexes: side('IXSCAN { a: 1 }', 3, 3, false),
    examinedRatio: 1500,
  };
  assert.deepEqual(trial.trialFacts({ hypothetical }), [
    ['Result', 'The query would examine 1,500 times less and would not be sorted in memory.'],
    ['Now', 'COLLSCAN: 9,000 keys and documents, sorted in memory'],
    ['With the index', 'IXSCAN { a: 1 }: 6 keys and documents'],
    ['Measured on', '10 of 9,000 documents'],
    ['Expected size', '2 KiB'],
  ]);
  hypothetical.indexes[0].used = false;
  assert.match(trial.trialFacts({ hypothetical })[0][1], /would not use/);

  const drop = parse(
    '{"kind":"dropIndex","ns":"d.c","name":"b_1","sizeBytes":1024,"accesses":{"ops":0,"since":{"$date":"2026-01-01T00:00:00Z"}}}',
  );
  assert.equal(advise.title(drop), 'Drop the index b_1 of d.c');
  assert.deepEqual(advise.evidence(drop)[0], ['Size', '1 KiB']);
  assert.match(advise.evidence(drop)[1][1], /^0 since 202/);
  const cache = parse(
    '{"kind":"cacheSize","cache":"blocks","presentBytes":1048576,"bytesFor99Percent":3145728,"option":"o","cacheSizeGB":2.5,' +
      '"presentCacheSizeGB":1,"measured":{"sampledReads":2000,"sizes":[{"times":1,"bytes":1048576,"hitRate":0.8}]}}',
  );
  assert.equal(advise.title(cache), 'Enlarge the cache of blocks');
  assert.deepEqual(advise.evidence(cache), [
    ['Now', '1 MiB'],
    ['For 99 % hits', '3 MiB'],
    ['Expected hits', '80 % with 1 MiB'],
    ['Measured on', '2,000 sampled reads'],
    ['Option', 'o: 2.5 GiB instead of 1 GiB'],
  ]);
  const caches = parse('{"caches":[{"cache":"records","limitBytes":1048576,"hitRate":0.5,"sampledReads":1500}]}');
  assert.deepEqual(advise.cacheTexts(caches), [
    'The cache of documents (1 MiB) answers about 50 % of its reads; no size up to 8 times this one is expected to ' +
      'answer 99 % (from 1,500 sampled reads).',
  ]);
  assert.deepEqual(advise.cacheTexts(parse('{}')), []);
  assert.match(advise.title(parse('{"kind":"toString","ns":"d.c"}')), /^toString on/);
  assert.match(
    advise.summary(parse('{"advice":[],"slowOperations":{"operations":3,"shapes":2},"slowms":100}')),
    /^No advice, from 3 /,
  );
});

test('the advice of the server on a group', () => {
  const [first, other, changed, inserted] = rows(
    shape({ ns: 'd.c' }),
    shape({ ns: 'd.e' }),
    shape({ ns: 'd.c', operation: 'update' }),
    { ...unplanned, ns: 'd.c' },
  );
  const reply = parse(
    JSON.stringify({
      advice: [
        {
          kind: 'createIndex',
          ns: 'd.c',
          key: { a: 1 },
          reason: 'why',
          command: { createIndexes: 'c', indexes: [{ key: { a: 1 }, name: 'a_1' }] },
          shapes: [{ ns: 'd.c', operation: 'find', planCacheShapeHash: '0000000A' }],
        },
        { kind: 'dropIndex', ns: 'd.c', name: 'x_1', command: { dropIndexes: 'c', index: 'x_1' } },
      ],
      notAdvised: [{ ns: 'd.e', operation: 'find', planCacheShapeHash: '0000000A', reason: 'few documents' }],
    }),
  );
  const { indexes } = advised.adviceFor(reply, first);
  assert.deepEqual(
    indexes.map((one) => text(one.get('key'))),
    ['{"a": 1}'],
  );
  assert.equal(text(advised.specifications(indexes[0])), '[{"key": {"a": 1}, "name": "a_1"}]');
  assert.deepEqual(advised.adviceFor(reply, other), { indexes: [], reason: 'few documents' });
  // The same hash of another operation is another shape.
  assert.match(advised.adviceFor(reply, changed).reason, /no advice on this shape/);
  assert.match(advised.adviceFor(reply, inserted).reason, /no plan/);
  assert.deepEqual(advised.adviceFor(null, first), { indexes: [], reason: 'not known yet' });
  assert.deepEqual(advised.adviceFor(parse('{}'), first).indexes, []);
});

test('an index is redundant if the server says so', () => {
  const advice = [
    { kind: 'dropIndex', ns: 'd.c', name: 'a_1', prefixOf: 'a_1_b_1' },
    { kind: 'dropIndex', ns: 'd.c', name: 'z_1' },
    { kind: 'dropIndex', ns: 'd.e', name: 'b_1', prefixOf: 'b_1_c_1' },
    { kind: 'createIndex', ns: 'd.c', name: 'q_1' },
  ];
  const replaced = indexes.replacedIn(advice, 'd.c');
  assert.deepEqual([...replaced], [['a_1', 'a_1_b_1']]);
  const listed = ['_id_', 'a_1', 'z_1'].map((name) => parse(`{"name": "${name}", "key": {"k": 1}}`));
  const usage = listed.map((index) => ({ name: index.get('name'), accesses: { ops: 0, since: 1000 } }));
  assert.deepEqual(
    indexes.indexRows(listed, usage, {}, replaced, 61000).map((row) => row.remarks),
    ['', 'redundant: a_1_b_1 begins with its fields; unused for 1 min', 'unused for 1 min'],
  );
});

test('growth is continued over ten times its time, and a month at most', () => {
  const GIB = 2 ** 30;
  const line = { bytes: 10 * GIB, trend: 'linear', bytesPerDay: GIB, spanMs: 600000 };
  assert.equal(growth.growthText(line), '+1 GiB a day');
  assert.equal(growth.expectedText(line), '10.1 GiB in 1 h 40 min');
  assert.equal(growth.expectedText({ ...line, spanMs: 86400000 * 20 }), '40 GiB in 30 d');
  assert.equal(growth.growthText({ ...line, bytesPerDay: -GIB }), '-1 GiB a day');
  assert.equal(growth.expectedText({ ...line, bytesPerDay: -20 * GIB, spanMs: 86400000 }), '0 B in 10 d');
  for (const trend of ['unknown', 'steady', 'uneven']) assert.equal(growth.expectedText({ ...line, trend }), '');
  assert.equal(growth.growthText({ ...line, trend: 'unknown' }), 'not known yet');
  assert.equal(growth.growthText(undefined), '');
});

test('what lands is summed by space and level, of the present layout only', () => {
  const segments = [
    { space: 'records', level: 0, from: 0, to: 1, files: 1, bytes: 10 },
    { space: 'records', level: 6, from: 0, to: 240, files: 9, bytes: 9000 },
    { space: '', level: 0, from: 240, to: 256, files: 0, bytes: 0 },
  ];
  const map = {
    columns: 256,
    layout: 2,
    segments,
    samples: [
      { t: 1000, n: 1, r: [[5, 1e9]], w: [] },
      {
        t: 2000,
        n: 2,
        r: [
          [0, 100],
          [1, 4096],
        ],
        w: [],
      },
      { t: 3000, n: 2, r: [[239, 4096]], w: [[240, 2048]] },
    ],
  };
  assert.deepEqual(
    diskmap.sumsOf(map).map((one) => [one.name, one.read, one.written]),
    [
      ['records L0', 50, 0],
      ['records L6', 4096, 0],
      ['being written', 0, 1024],
    ],
  );
  assert.equal(
    diskmap.summary(map),
    'Disk map, last 10 seconds: 4.05 KiB/s read, most in records L6; 1 KiB/s written, most in being written.',
  );
  assert.match(diskmap.summary({ ...map, columns: 0 }), /does not tell/);
  assert.match(diskmap.summary({ ...map, samples: [] }), /nothing read; nothing written/);
});

test('a verdict says what a larger cache is worth', () => {
  const MIB = 2 ** 20;
  const estimate = (...rates) => ({
    points: [0.5, 1, 2, 4, 8].map((times, i) => ({ times, bytes: times * 100 * MIB, rate: rates[i] })),
  });
  assert.equal(
    sizes.verdict({ ...estimate(0.4, 0.6, 0.8, 0.99, 1), enough: 400 * MIB }),
    '80 % of the reads instead of 60 % with 200 MiB. 99 % hits need 400 MiB.',
  );
  assert.equal(sizes.verdict(estimate(0.4, 0.6, 0.6, 0.6, 0.9)), '90 % of the reads instead of 60 % with 800 MiB.');
  assert.equal(sizes.verdict(estimate(0.5, 0.6, 0.6, 0.6, 0.6)), 'A larger cache would hardly answer more reads.');
  assert.match(sizes.verdict(estimate(0.6, 0.6, 0.6, 0.6, 0.6)), /Half of it would do as well\.$/);
  assert.equal(sizes.estimateOf({}), null);
  assert.equal(sizes.estimateOf({ estimate: { sizes: [] } }), null);
});

test('the window of the oplog', () => {
  const at = (t) => ({ $timestamp: { t, i: 1 } });
  const status = {
    oplog: { earliestOptime: at(1000), latestOptime: at(8200) },
    oplogTruncation: { oplogMinRetentionHours: 24 },
  };
  const window = oplog.oplogWindow(status, { size: 10, maxSize: 100 });
  assert.deepEqual([window.spanMs, window.fullMs, window.hoursMin], [7200000, 72000000, 24]);
  assert.equal(oplog.oplogWindow(status, { size: 99, maxSize: 100 }).fullMs, undefined);
  const young = { oplog: { earliestOptime: at(1000), latestOptime: at(1010) } };
  assert.equal(oplog.oplogWindow(young, { size: 1, maxSize: 100 }).fullMs, undefined);
  assert.equal(oplog.oplogWindow({}, {}).spanMs, undefined);
});

test('events in words', () => {
  const compaction = {
    kind: 'compaction',
    space: 'records',
    fromLevel: 0,
    toLevel: 6,
    filesRead: 3,
    bytesRead: 9,
    entriesRead: 100,
    entriesWritten: 60,
  };
  assert.equal(activity.placeOf(compaction), 'records, level 0 to 6');
  assert.equal(activity.resultOf(compaction), '40 old entries dropped');
  const moved = { ...compaction, bytesRead: 0, entriesRead: 0, entriesWritten: 0 };
  assert.equal(activity.resultOf(moved), 'files moved as they are');
  assert.equal(activity.resultOf({ ...compaction, failed: true }), 'failed');
  assert.equal(activity.resultOf({ kind: 'memory', count: 3 }), '3 times');
});
