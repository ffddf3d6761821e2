// What the server advises for a slow shape. The reasoning is the server's (nagiAdvise); here its reply is joined with
// the rows of the page. No requests, no elements.
import { dig } from './ejson.js';

const list = (value) => (Array.isArray(value) ? value : []);

/** The command whose reply the functions here take. It reads no documents: an index is tried on request. */
export const ADVISE = JSON.stringify({ nagiAdvise: 1, measure: false });

/** True if a row of the reply, or a shape of a piece of advice, is of this group. */
const isOf = (group, row) =>
  row.get('ns') === group.ns &&
  row.get('operation') === group.name &&
  group.hash === String(row.get('planCacheShapeHash') ?? '') &&
  group.stages === String(row.get('stagesHash') ?? '');

/**
 * The server's advice for a group: `{indexes, reason}`. `indexes` are the pieces of advice with an index
 * that the group's shapes need (Maps); `reason` says why there is none. `reply` is the reply to `ADVISE`, or null
 * before there is one.
 */
export function adviceFor(reply, group) {
  if (!reply) return { indexes: [], reason: 'not known yet' };
  const indexes = list(reply.get('advice')).filter(
    (advice) =>
      advice.get('kind') === 'createIndex' &&
      advice.get('command') instanceof Map &&
      list(advice.get('shapes')).some((shape) => isOf(group, shape)),
  );
  if (indexes.length) return { indexes, reason: '' };
  const row = list(reply.get('notAdvised')).find((one) => isOf(group, one));
  if (row) return { indexes, reason: String(row.get('reason')) };
  return {
    indexes,
    reason: group.hash ? 'the server has no advice on this shape' : 'it has no plan that an index could change',
  };
}

/** The specifications of the indexes that the command of a piece of advice builds. */
export const specifications = (advice) => list(dig(advice, 'command', 'indexes'));
