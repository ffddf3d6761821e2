// Tests the parts of the console that need no browser: node unit.mjs ASSETS.
import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';

const assets = process.env.ASSETS ?? path.join(import.meta.dirname, '../../../crates/console/assets');
const load = (name) => import(pathToFileURL(path.join(assets, name)).href);
const format = await load('format.js');
const ejson = await load('ejson.js');
const advice = await load('advice.js');
const slow = await load('slow_groups.js');
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

test('suggestions: equality, sort, range', () => {
  const key = (filter, sort = '{}') => text(advice.keyPattern(parse(filter), parse(sort)).key);
  for (const [filter, sort, wanted] of [
    ['{"a": 1}', '{}', '{"a": 1}'],
    ['{"r": {"$gt": 5}, "a": 1}', '{"s": -1}', '{"a": 1, "s": -1, "r": 1}'],
    ['{"$and": [{"x": 1}, {"y": {"$gte": 1, "$lt": 2}}]}', '{}', '{"x": 1, "y": 1}'],
    ['{"o": {"$oid": "0123456789abcdef01234567"}, "d": {"$date": "2026-01-01T00:00:00Z"}}', '{}', '{"o": 1, "d": 1}'],
    ['{"n": {"$regularExpression": {"pattern": "^a", "options": ""}}, "a": {"$in": [1, 2]}}', '{}', '{"a": 1, "n": 1}'],
    ['{"t": {"$elemMatch": {"k": 1, "v": {"$gt": 2}}}}', '{}', '{"t.k": 1, "t.v": 1}'],
    ['{"a": {"$ne": 1}, "b": {"$not": {"$gt": 1}}}', '{}', '{}'],
    ['{"$expr": {"$eq": ["$a", 1]}}', '{"s": 1}', '{"s": 1}'],
    ['{"a": 1}', '{"score": {"$meta": "textScore"}}', '{"a": 1}'],
    ['{"a..b": 1, "": 1, "c.$x": 1}', '{}', '{}'],
    ['{"b": 1, "2": 1}', '{}', '{"b": 1, "2": 1}'],
  ])
    assert.equal(key(filter, sort), wanted, filter);
});

const line = (attr, extra = '') =>
  `{"t":{"$date":"2026-01-01T00:00:00.000+00:00"},"s":"I","c":"COMMAND","id":51803,"msg":"Slow query","attr":${JSON.stringify(attr)}${extra}}`;

test('slow operations are grouped by shape', () => {
  const find = (a, ms, more = {}) =>
    line({
      type: 'command',
      ns: 'shop.orders',
      command: { find: 'orders', filter: { a, r: { $gt: 5 } }, sort: { s: -1 }, lsid: { id: 1 }, $db: 'shop' },
      planSummary: 'COLLSCAN',
      docsExamined: 1000,
      keysExamined: 0,
      nreturned: 10,
      hasSortStage: true,
      queryShapeHash: 'AB',
      durationMillis: ms,
      ...more,
    });
  const found = slow.groups([
    find(1, 100),
    find(2, 300),
    find(3, 200),
    'not a line',
    '{"id":51803',
    line({ type: 'command', ns: 'shop.$cmd', command: { update: 'x' }, durationMillis: 9000 }),
    line({
      type: 'update',
      ns: 'shop.other',
      command: { q: { x: { $gte: 1 } }, u: { $set: { y: 1 } }, multi: true, upsert: false },
      planSummary: 'COLLSCAN',
      docsExamined: 500,
      nMatched: 1,
      durationMillis: 150,
    }),
  ]);
  assert.deepEqual(
    found.map((group) => [group.ns, group.count, group.totalMs, group.medianMs, group.slowestMs, group.perReturned]),
    [
      ['shop.orders', 3, 600, 200, 300, 100],
      ['shop.other', 1, 150, 150, 150, 500],
    ],
  );
  assert.equal(text(found[0].advice.indexes[0]), '{"a": 1, "s": -1, "r": 1}');
  assert.equal(found[0].shapeText, '{a: ?, r: {$gt: ?}}, sort {"s": -1}');
  assert.equal(
    slow.explainText(found[0]),
    '{"explain": {"find": "orders", "filter": {"a": 2, "r": {"$gt": 5}}, "sort": {"s": -1}}, "verbosity": "executionStats"}',
  );
  assert.equal(
    slow.explainText(found[1]),
    '{"explain": {"update": "other", "updates": [{"q": {"x": {"$gte": 1}}, "u": {"$set": {"y": 1}}, "multi": true, "upsert": false}]}, "verbosity": "executionStats"}',
  );
  assert.equal(text(found[1].advice.indexes[0]), '{"x": 1}');
});

test('no suggestion where an index would not help', () => {
  const reason = (command, figures) => {
    const attr = parse(JSON.stringify({ type: 'command', ns: 'd.c', command }));
    return advice.advise(advice.requestOf(attr), { docs: 1000, returned: 1, sorts: false, ...figures });
  };
  assert.match(reason({ find: 'c', filter: {} }).reason, /neither a filter/);
  assert.match(reason({ find: 'c', filter: { _id: 1 } }).reason, /by _id/);
  assert.match(reason({ find: 'c', filter: { a: 1 } }, { returned: 900 }).reason, /Few documents/);
  assert.match(reason({ find: 'c', filter: { $text: { $search: 'x' } } }).reason, /text index/);
  assert.equal(reason({ find: 'c', filter: { $or: [{ a: 1 }, { b: 1 }] } }).indexes.length, 2);
  assert.equal(reason({ find: 'c', filter: { $or: [{ a: 1 }, { b: { $ne: 1 } }] } }).indexes.length, 0);
  assert.equal(
    text(
      reason({ aggregate: 'c', pipeline: [{ $match: { a: 1 } }, { $sort: { b: 1 } }, { $group: { _id: null } }] })
        .indexes[0],
    ),
    '{"a": 1, "b": 1}',
  );
  assert.equal(text(reason({ getMore: 1, collection: 'c' }).indexes), '[]');
});
