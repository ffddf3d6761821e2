// Rows of the page of slow operations from the server's shapes. No requests, no elements.
import { dig, Num, text } from './ejson.js';

const number = (value) => (value instanceof Num || typeof value === 'number' ? Number(value) : 0);

/** Fields of a command that belong to the session, not to the request. */
const SESSION = new Set([
  'lsid',
  '$db',
  '$clusterTime',
  'txnNumber',
  'autocommit',
  'startTransaction',
  '$readPreference',
  'signature',
  'apiVersion',
  'apiStrict',
  'apiDeprecationErrors',
  'readConcern',
  'writeConcern',
  'comment',
  'maxTimeMS',
  'queryHash',
  'planCacheKey',
]);

const strings = (value) => (Array.isArray(value) ? value.map(String) : []);

/** The rows of a reply of `GET /api/slow`, read by `parse`, those with the greatest total time first. */
export function groups(reply) {
  const shapes = reply.get('shapes');
  return (Array.isArray(shapes) ? shapes : []).map((row) => {
    const fields = ['ns', 'operation', 'planCacheShapeHash', 'stagesHash'];
    const [ns, name, hash, stages] = fields.map((field) => String(row.get(field) ?? ''));
    const [count, docs, returned] = ['count', 'docsExamined', 'nReturned'].map((field) => number(row.get(field)));
    const totalUs = number(row.get('totalMicros'));
    return {
      key: `${ns} ${name} ${hash} ${stages}`,
      ns,
      name,
      hash,
      stages,
      shapeText: String(row.get('shape') ?? ''),
      count,
      totalUs,
      averageUs: totalUs / Math.max(1, count),
      slowestUs: number(row.get('slowestMicros')),
      // An insert reads none, and returns none.
      perReturned: hash || docs ? docs / Math.max(1, returned) : null,
      plans: strings(row.get('plans')),
      apps: strings(row.get('appNames')),
      lastMs: number(row.get('lastMs')),
    };
  });
}

/** The path of a group with its slowest command. */
export function pathOf({ ns, name, hash, stages }) {
  const values = { ns, operation: name, planCacheShapeHash: hash, ...(stages && { stagesHash: stages }) };
  const pairs = Object.entries(values).map(([field, value]) => `${field}=${encodeURIComponent(value)}`);
  return `api/slow?${pairs.join('&')}`;
}

/** What a command of a group asks for: `{db, collection, command, name}`; null without a command or a collection. */
export function requestOf(group, command) {
  const dot = group.ns.indexOf('.');
  const [db, collection] = [group.ns.slice(0, dot), group.ns.slice(dot + 1)];
  if (!(command instanceof Map) || !command.size || !collection || collection === '$cmd') return null;
  return { db, collection, command, name: group.name };
}

/** Fields of a statement of `bulkWrite`, and what `update` and `delete` call them. */
const BULK = new Map([
  ['filter', 'q'],
  ['updateMods', 'u'],
  ['constants', 'c'],
]);

/** A statement as `update` or `delete` takes it; null if it is none. */
function statementOf(name, fields) {
  if (fields.get('q') instanceof Map) return fields;
  if (!['update', 'remove'].includes(name) || !(fields.get('filter') instanceof Map)) return null;
  const own = [...fields].filter(([field]) => field !== 'update' && field !== 'delete');
  const statement = new Map(own.map(([field, value]) => [BULK.get(field) ?? field, value]));
  if (name === 'remove') {
    statement.set('limit', statement.get('multi') === true ? 0 : 1);
    statement.delete('multi');
  }
  return statement;
}

/** Other commands that `explain` takes, as they are. */
const EXPLAINED = new Set([
  'find',
  'aggregate',
  'count',
  'distinct',
  'findAndModify',
  'findandmodify',
  'mapReduce',
  'mapreduce',
]);

/** Why there is no explain command for a request; null if there is one. */
export function unexplained(request) {
  if (!request) return 'it is on no collection';
  if (dig(request.command, '$truncated') !== undefined) return 'it was cut, because it is longer than 8 KiB';
  if (EXPLAINED.has(request.name) || statementOf(request.name, request.command)) return null;
  return `explain does not take '${request.name}'`;
}

/** The text of an explain command for a request; null if there is none. */
export function explainText(request) {
  if (unexplained(request)) return null;
  let inner = new Map([...request.command].filter(([name]) => !SESSION.has(name)));
  const statement = statementOf(request.name, inner);
  if (statement) {
    inner =
      request.name === 'remove'
        ? new Map([
            ['delete', request.collection],
            ['deletes', [statement]],
          ])
        : new Map([
            ['update', request.collection],
            ['updates', [statement]],
          ]);
  }
  if (inner.has('aggregate') && !inner.has('cursor')) inner.set('cursor', new Map());
  return text(
    new Map([
      ['explain', inner],
      ['verbosity', 'executionStats'],
    ]),
  );
}
