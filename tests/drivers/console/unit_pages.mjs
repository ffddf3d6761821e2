// Tests what pages say and what is typed into them, without a browser: node unit_pages.mjs, with ASSETS.
import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';

const assets = process.env.ASSETS ?? path.join(import.meta.dirname, '../../../crates/console/assets');
const load = (name) => import(pathToFileURL(path.join(assets, name)).href);
const contact = await load('contact.js');
const operations = await load('operations.js');
const server = await load('server.js');
const alerts = await load('alerts.js');
const typing = await load('typed.js');

test('a page says of when its figures are while the server does not answer', () => {
  const [nine, later] = [new Date(2026, 0, 31, 9, 0, 0).getTime(), new Date(2026, 0, 31, 9, 5, 7).getTime()];
  const said = (lostMs, loadedMs, showsFigures = false, stream = 'live') =>
    contact.noticeOf({ lostMs, loadedMs }, showsFigures, stream);
  assert.equal(said(null, nine), '');
  assert.equal(said(later, nine), 'The server does not answer since 09:05:07; last figures of 09:00:00.');
  assert.equal(said(later, null), 'The server does not answer since 09:05:07.');
  assert.equal(said(null, null, true, 'refused'), 'No figures: needs the role clusterMonitor.');
  assert.equal(said(null, null, false, 'refused'), '');

  contact.answered(1000);
  contact.failed(900, 1500);
  assert.equal(contact.state().lostMs, null, 'another request was answered since');
  contact.failed(1100, 1600);
  contact.failed(1700, 1800);
  assert.equal(contact.state().lostMs, 1600);
  contact.answered(2000);
  assert.equal(contact.state().lostMs, null);

  assert.equal(contact.reasonOf(), 'Loading ...');
  assert.equal(contact.reasonOf({ status: 0 }), 'Not known: the server does not answer.');
  assert.equal(contact.reasonOf({ code: 13 }, 'read'), 'Not known: needs the role read.');
  assert.match(contact.reasonOf({ code: 2 }), /^Not known: /);
});

test('idle sessions are told from operations', () => {
  const session = {
    type: 'idleSession',
    desc: 'inactive transaction',
    client: '127.0.0.1:5',
    connectionId: 7,
    lsid: { id: { $uuid: 'a' } },
    transaction: {
      timeOpenMicros: 90000000,
      timeInactiveMicros: 30000000,
      expiryTime: '2026-01-31T10:00:00.000+00:00',
    },
  };
  assert.equal(operations.nameOf(session), 'inactive transaction');
  assert.equal(operations.elapsedText(session), 'idle for 30 s');
  assert.match(operations.progress(session), /^open for 1 min 30 s, aborted at \d\d:\d\d:00$/);
  const connection = { type: 'op', active: false, connectionId: 7 };
  assert.equal(operations.elapsedText(connection), 'idle');
  assert.notEqual(operations.keyOf(session), operations.keyOf(connection));
  assert.equal(operations.elapsedText({ type: 'op', active: true, microsecs_running: 1300, opid: 1 }), '1.3 ms');
});

test('operations have the name of their command, and statements of batches that of their kind', () => {
  for (const [op, command, wanted] of [
    ['update', { q: { _id: 1 }, u: { $set: { a: 1 } }, multi: false }, 'update'],
    ['remove', { q: { _id: 1 }, limit: 1 }, 'remove'],
    ['remove', { delete: 0, filter: {}, multi: false }, 'remove'],
    ['insert', { insert: 'c', ordered: true }, 'insert'],
    ['query', { find: 'c', filter: {} }, 'find'],
    ['command', { aggregate: 'c', pipeline: [] }, 'aggregate'],
    ['command', { $truncated: true, aggregate: 'c' }, 'aggregate'],
    ['command', { $truncated: "{ findAndModify: 'c'" }, 'command'],
    ['none', {}, 'none'],
  ])
    assert.equal(operations.nameOf({ type: 'op', op, command }), wanted, JSON.stringify(command));
  const build = { type: 'op', op: 'command', command: { createIndexes: 'c' }, msg: 'Index Build: scanning' };
  assert.equal(operations.nameOf(build), 'Index Build: scanning');
});

test('operations tell what they wait for', () => {
  const running = { type: 'op', active: true, opid: 1, currentQueue: null, waitingForLock: false };
  assert.equal(operations.progress(running), '');
  assert.match(operations.progress({ ...running, waitingForLock: true }), /lock of fsync/);
  assert.match(operations.progress({ ...running, waitingForTransaction: true }), /transaction/);
  assert.match(operations.progress({ ...running, waitingForWrite: true }), /another write/);
  assert.match(operations.progress({ ...running, waitingForDisk: true }), /disk/);
  assert.match(operations.progress({ ...running, currentQueue: { name: 'execution' } }), /ticket/);
});

test('a server that does not answer is not said to run on', () => {
  const now = 1_000_000;
  assert.equal(server.ran(0, { lostMs: null, answeredMs: 5 }, now), '16 min 40 s');
  assert.equal(server.ran(0, { lostMs: 61_000, answeredMs: 60_000 }, now), '1 min');
});

test('values of alerts have units', () => {
  for (const [value, unit, wanted] of [
    [0.05, 'share', '5 %'],
    [172800, 's', '2 d'],
    [30e6, 'us', '30 s'],
    [1048576, 'bytes', '1 MiB'],
    [1049, 'ms', '1049 ms'],
    [4, '', 4],
    [null, 'share', 'not known'],
  ])
    assert.equal(alerts.amount(value, unit), wanted);
});

const NOW = 1_700_000_000_000;
const part = (source, open) => typing.typedPart('Filter', source, open);

test('calls are evaluated as mongosh does', () => {
  const date = (ms) => new RegExp(`^{a: {"\\$date": {"\\$numberLong": "${ms}"}}}$`);
  for (const source of ['{a: new Date()}', '{a: ISODate()}', '{a: new ISODate( )}'])
    assert.match(part(source).text, date('\\d{13}'));
  assert.match(part('{a: new Date(5)}').text, date(5));
  assert.match(part('{a: new Date("2026-01-31T00:00:00Z")}').text, date(Date.UTC(2026, 0, 31)));
  assert.match(part('{a: new Date(2026, 0, 31)}').text, date(new Date(2026, 0, 31).getTime()));
  assert.match(part('{a: ObjectId()}').text, /^{a: {"\$oid": "[0-9a-f]{24}"}}$/);
  assert.match(part('{a: UUID()}').text, /^{a: {"\$uuid": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"}}$/);
  for (const [text, wanted] of [
    ['Date.now() - 24*60*60*1000', NOW - 86400000],
    ['-(2 + 3) * 4 / 2', -10],
    ['1e3', 1000],
    ['1 +', Number.NaN],
    ['alert(1)', Number.NaN],
    ['(1', Number.NaN],
    ['', Number.NaN],
  ])
    assert.equal(typing.arithmetic(text, NOW), wanted, text);
  for (const kept of [
    '{a: ISODate("2026-01-31"), b: ObjectId("0123456789abcdef01234567"), c: /new Date()/, d: "new Date()", Date: 1}',
    "{a: 'ISODate()', x$Date: 1, ObjectId: 'ObjectId()'}",
    '',
  ])
    assert.equal(part(kept).text, kept || '{}');
  for (const [bad, why] of [
    ['{a: Date()}', /^Filter, line 1, column 5: Date\(\) is a text/],
    ['{\n  a: new Date("yesterday")}', /^Filter, line 2, column 6: new Date\("yesterday"\) is not a date/],
    ['{a: new Date(today)}', /is not a date/],
    ['{a: 1', /^Filter: A bracket or quote is not closed/],
  ])
    assert.throws(
      () => part(bad),
      (error) => error instanceof SyntaxError && why.test(error.message),
      bad,
    );
});

test('positions of errors are places in what was typed', () => {
  const before = '{"db": "\u00e9", "command": ';
  const body = typing.compose`{"find": ${'"\u00e9"'}, "filter": ${part('\n {\u00e9: new Date(), b: x}')}, "limit": 5}`;
  const bytes = (text) => new TextEncoder().encode(text).length;
  const at = bytes(before) + bytes(body.text.slice(0, body.text.indexOf('x}')));
  const located = (position) =>
    typing.located(`The request is not JSON: unknown word 'x' at position ${position}`, before, body);
  assert.equal(located(at), "Filter, line 2, column 21: unknown word 'x'");
  assert.equal(located(3), "unknown word 'x'");
  assert.equal(typing.located('another error', before, body), 'another error');
  const pipeline = part('[{$match: {}}, ]', '[');
  assert.equal(pipeline.inner().text, '{$match: {}}');
  assert.equal(part(' ', '[').inner().text, '');
});
