// Groups the log's lines of slow operations by shape. No requests, no elements.
import { dig, Num, parse, text } from './ejson.js';

const SLOW_ID = '"id":51803';
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

/** A value with its constants replaced by ?, for the text of a shape. */
export function shape(value) {
  if (value instanceof Map) {
    if (!value.size) return '{}';
    return `{${[...value].map(([name, item]) => `${name}: ${shapeOf(name, item)}`).join(', ')}}`;
  }
  return '?';
}
function shapeOf(name, item) {
  if (item instanceof Map)
    return [...item.keys()].every((key) => /^\$(oid|date|number|binary|uuid|timestamp|regularE)/.test(key)) && item.size
      ? '?'
      : shape(item);
  if (Array.isArray(item) && (name === '$and' || name === '$or' || name === '$nor'))
    return `[${item.map(shape).join(', ')}]`;
  return '?';
}

/** What a logged command asks for: `{db, collection, command, name, filter, sort}`, or null if it has no collection. */
export function requestOf(attr) {
  const ns = String(attr.get('ns') ?? '');
  const [db, collection] = [ns.slice(0, ns.indexOf('.')), ns.slice(ns.indexOf('.') + 1)];
  const command = dig(attr, 'command', 'getMore') === undefined ? attr.get('command') : attr.get('originatingCommand');
  if (!(command instanceof Map) || !command.size || !collection || collection === '$cmd') return null;
  const map = (value) => (value instanceof Map ? value : new Map());
  const isStatement = command.get('q') instanceof Map;
  return {
    db,
    collection,
    command,
    name: isStatement ? String(attr.get('type') ?? 'write') : command.keys().next().value,
    filter: map(isStatement ? command.get('q') : (command.get('filter') ?? command.get('query'))),
    sort: map(command.get('sort')),
  };
}

/** Reads the lines of `getLog`; returns the groups, the most expensive first, each with its slowest example. */
export function groups(lines) {
  const found = new Map();
  for (const line of lines) {
    if (!line.includes(SLOW_ID)) continue;
    let entry;
    try {
      entry = parse(line);
    } catch {
      continue;
    }
    const attr = entry.get('attr');
    // The frame of a command whose statements have lines of their own would count them twice.
    if (!(attr instanceof Map) || String(attr.get('ns')).endsWith('.$cmd')) continue;
    add(found, entry, attr);
  }
  const all = [...found.values()];
  all.forEach(finish);
  return all.sort((a, b) => b.totalMs - a.totalMs);
}

function add(found, entry, attr) {
  const request = requestOf(attr);
  const name = request?.name ?? attr.get('type') ?? '';
  const shapeText = request ? describe(request) : name;
  const hash = attr.get('queryShapeHash') ?? attr.get('planCacheShapeHash') ?? attr.get('queryHash');
  const key = `${attr.get('ns')} ${name} ${hash ?? shapeText}`;
  const ms = number(attr.get('durationMillis'));
  let group = found.get(key);
  if (!group) {
    group = {
      key,
      ns: String(attr.get('ns')),
      name,
      shapeText,
      durations: [],
      docs: 0,
      keys: 0,
      returned: 0,
      sorts: false,
      plans: new Set(),
      /** Under these the server counts the operations of the group. */
      hashes: new Set(),
      slowestMs: -1,
    };
    found.set(key, group);
  }
  group.durations.push(ms);
  group.docs += number(attr.get('docsExamined'));
  group.keys += number(attr.get('keysExamined'));
  group.returned += number(attr.get('nreturned')) + number(attr.get('nMatched')) + number(attr.get('ndeleted'));
  group.sorts ||= attr.get('hasSortStage') === true;
  if (attr.get('planSummary')) group.plans.add(String(attr.get('planSummary')));
  if (attr.get('planCacheShapeHash')) group.hashes.add(String(attr.get('planCacheShapeHash')));
  group.lastPlan = String(attr.get('planSummary') ?? '');
  group.lastMs = Date.parse(dig(entry, 't', '$date'));
  group.apps = (group.apps ?? new Set()).add(String(attr.get('appName') ?? attr.get('remote') ?? ''));
  if (ms >= group.slowestMs) Object.assign(group, { slowestMs: ms, attr, request, truncated: entry.has('truncated') });
}

/** Commands whose filter is shown even if it is empty. */
const QUERIES = new Set(['find', 'count', 'distinct', 'update', 'remove', 'findAndModify', 'findandmodify']);

function describe(request) {
  if (request.name === 'aggregate') return stages(request.command.get('pipeline'));
  if (!QUERIES.has(request.name)) return '';
  const parts = [shape(request.filter)];
  if (request.sort.size) parts.push(`sort ${text(request.sort)}`);
  return parts.join(', ');
}

function stages(pipeline) {
  if (!Array.isArray(pipeline)) return '';
  const one = (stage) => {
    const filter = dig(stage, '$match');
    return filter instanceof Map ? `$match ${shape(filter)}` : [...(stage?.keys?.() ?? [])][0];
  };
  return `[${pipeline.map(one).join(', ')}]`;
}

function finish(group) {
  const sorted = group.durations.sort((a, b) => a - b);
  group.count = sorted.length;
  group.totalMs = sorted.reduce((total, ms) => total + ms, 0);
  group.medianMs = sorted[Math.floor((sorted.length - 1) / 2)];
  group.perReturned = group.docs / Math.max(1, group.returned);
}

/** The text of an explain command for a group's example, or null if the log does not have the whole command. */
export function explainText(group) {
  const { request } = group;
  if (!request || group.truncated) return null;
  let inner = new Map([...request.command].filter(([name]) => !SESSION.has(name)));
  if (request.command.get('q') instanceof Map) {
    inner =
      request.name === 'remove'
        ? new Map([
            ['delete', request.collection],
            ['deletes', [inner]],
          ])
        : new Map([
            ['update', request.collection],
            ['updates', [inner]],
          ]);
  } else if (!['find', 'aggregate', 'count', 'distinct', 'findAndModify', 'findandmodify'].includes(request.name)) {
    return null;
  }
  if (inner.has('aggregate') && !inner.has('cursor')) inner.set('cursor', new Map());
  return text(
    new Map([
      ['explain', inner],
      ['verbosity', 'executionStats'],
    ]),
  );
}
