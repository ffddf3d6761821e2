// Index suggestions by the rule "equality, sort, range": fields compared for equality first, then the order of the
// result, then fields compared by range. No requests, no elements.
import { dig } from './ejson.js';

const FIELDS_MAX = 6;
const BRANCHES_MAX = 4;

/** Objects with these names are values of extended JSON, not operators. */
const TYPES = new Set([
  '$oid',
  '$date',
  '$numberLong',
  '$numberInt',
  '$numberDouble',
  '$numberDecimal',
  '$binary',
  '$uuid',
  '$timestamp',
  '$minKey',
  '$maxKey',
  '$symbol',
  '$code',
  '$dbPointer',
  '$undefined',
  '$ref',
]);
const EQUAL = new Set(['$eq', '$in', '$all']);
const RANGE = new Set(['$gt', '$gte', '$lt', '$lte', '$regex']);
const OTHER_INDEX = {
  $near: 'geospatial',
  $nearSphere: 'geospatial',
  $geoWithin: 'geospatial',
  $geoIntersects: 'geospatial',
  $geoNear: 'geospatial',
  $text: 'text',
};

/** Returns the operators of a condition on a field, or null if it is a plain value. */
function operators(value) {
  if (!(value instanceof Map) || !value.size) return null;
  const [first] = value.keys();
  return first.startsWith('$') && !TYPES.has(first) && first !== '$regularExpression' ? value : null;
}

function addFilter(filter, prefix, found) {
  for (const [name, value] of filter) {
    if (name === '$and') {
      if (Array.isArray(value))
        value.forEach((part) => {
          if (part instanceof Map) addFilter(part, prefix, found);
        });
    } else if (name === '$or') {
      if (Array.isArray(value)) found.branches.push(...value.filter((part) => part instanceof Map));
    } else if (OTHER_INDEX[name]) {
      found.special = OTHER_INDEX[name];
    } else if (!name.startsWith('$')) {
      addField(prefix + name, value, found);
    }
  }
}

function addField(path, value, found) {
  const conditions = operators(value);
  if (!conditions) {
    const isRegex = value instanceof Map && value.has('$regularExpression');
    found[isRegex ? 'range' : 'equal'].add(path);
    return;
  }
  for (const [name, operand] of conditions) {
    if (EQUAL.has(name)) found.equal.add(path);
    else if (RANGE.has(name) || (name === '$exists' && operand === true)) found.range.add(path);
    else if (OTHER_INDEX[name]) found.special = OTHER_INDEX[name];
    else if (name === '$elemMatch' && operand instanceof Map) {
      if (operators(operand)) addField(path, operand, found);
      else addFilter(operand, `${path}.`, found);
    }
  }
}

const isPath = (path) => path !== '' && path.split('.').every((part) => part !== '' && !part.startsWith('$'));

/** The key pattern for a filter and a sort, as a Map, or null if there is no field for it. */
export function keyPattern(filter, sort) {
  const found = { equal: new Set(), range: new Set(), branches: [], special: null };
  addFilter(filter, '', found);
  const key = new Map();
  for (const path of found.equal) if (isPath(path)) key.set(path, 1);
  for (const [path, direction] of sort ?? []) {
    const order = Number(direction);
    if (isPath(path) && !key.has(path) && (order === 1 || order === -1)) key.set(path, order);
  }
  for (const path of found.range) if (isPath(path) && !key.has(path)) key.set(path, 1);
  return {
    key: new Map([...key].slice(0, FIELDS_MAX)),
    branches: found.branches,
    special: found.special,
    equal: found.equal,
  };
}

/** Filter and sort of a logged command: `{db, collection, filter, sort, name}`, or null if it has none. */
export function requestOf(attr) {
  const ns = attr.get('ns') ?? '';
  const [db, collection] = [ns.slice(0, ns.indexOf('.')), ns.slice(ns.indexOf('.') + 1)];
  const command = dig(attr, 'command', 'getMore') === undefined ? attr.get('command') : attr.get('originatingCommand');
  if (!(command instanceof Map) || !command.size || !collection || collection === '$cmd') return null;
  if (command.get('q') instanceof Map) {
    return { db, collection, command, name: attr.get('type') ?? 'write', filter: command.get('q'), sort: new Map() };
  }
  const [name] = command.keys();
  if (name === 'aggregate') return { db, collection, command, name, ...startOf(command.get('pipeline')) };
  const filter = command.get('filter') ?? command.get('query');
  const sort = command.get('sort');
  return {
    db,
    collection,
    command,
    name,
    filter: filter instanceof Map ? filter : new Map(),
    sort: sort instanceof Map ? sort : new Map(),
  };
}

/** Filter and sort at the start of a pipeline, which an index can answer. */
function startOf(pipeline) {
  const filters = [];
  for (const stage of Array.isArray(pipeline) ? pipeline : []) {
    const [match, sort] = [dig(stage, '$match'), dig(stage, '$sort')];
    if (match instanceof Map) filters.push(match);
    else return { filter: joined(filters), sort: sort instanceof Map ? sort : new Map() };
  }
  return { filter: joined(filters), sort: new Map() };
}
const joined = (filters) =>
  filters.length === 1 ? filters[0] : filters.length ? new Map([['$and', filters]]) : new Map();

/**
 * Suggests indexes for a slow operation: `{indexes: [Map], reason}`. `figures` has `docs`, `returned` (sums) and
 * `sorts` (sorted in memory). Without a suggestion `reason` says why.
 */
export function advise(request, figures) {
  if (!request) return none('The line contains no filter.');
  const { key, branches, special, equal } = keyPattern(request.filter, request.sort);
  if (special) return none(`The filter needs a ${special} index.`);
  if (equal.has('_id')) return none('The filter finds documents by _id.');
  const ratio = figures.docs / Math.max(1, figures.returned);
  if (ratio <= 2 && !figures.sorts)
    return none('Few documents are read for each one returned: the time is spent elsewhere.');
  if (!key.size && branches.length) {
    const indexes = branches
      .slice(0, BRANCHES_MAX)
      .map((branch) => keyPattern(branch, request.sort).key)
      .filter((one) => one.size);
    return indexes.length === branches.length
      ? { indexes, reason: 'Each branch of $or needs an index of its own.' }
      : none('A branch of $or has no field that an index could find.');
  }
  if (!key.size) return none('The operation has neither a filter nor a sort that an index could answer.');
  return { indexes: [key], reason: describe(key, figures) };
}

const none = (reason) => ({ indexes: [], reason });

function describe(key, figures) {
  const ratio = Math.round(figures.docs / Math.max(1, figures.returned));
  const sorted = figures.sorts ? ' and sorts in memory' : '';
  return `It reads ${ratio} documents for each one returned${sorted}.`;
}

/** The name that drivers give to an index. */
export const indexName = (key) =>
  [...key]
    .map(([path, order]) => `${path}_${order}`)
    .join('_')
    .slice(0, 120);

/** Returns true if the key pattern of an existing index begins with `key`. */
export function begins(existing, key) {
  const [long, short] = [[...existing], [...key]];
  return (
    short.length <= long.length &&
    short.every(([path, order], i) => long[i][0] === path && String(long[i][1]) === String(order))
  );
}
