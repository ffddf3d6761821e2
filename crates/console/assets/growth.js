// How fast databases and collections grow, as the server has measured it.
import { get } from './api.js';
import { bytes, duration } from './format.js';

const DAY_MS = 86400000;
/** A line is continued over ten times the time it was measured in, and over a month at most. */
const CONTINUED = 10;
const AHEAD_MS_MAX = 30 * DAY_MS;

/** The sizes by name; empty if the server does not tell them to this user. */
export async function growthOf(db) {
  const path = db === undefined ? 'api/growth' : `api/growth?db=${encodeURIComponent(db)}`;
  const reply = await get(path).catch(() => ({}));
  return new Map((reply.collections ?? reply.databases ?? []).map((one) => [one.name, one]));
}

/** The growth in a day, or why it is not known. */
export function growthText(one) {
  if (!one) return '';
  if (one.trend === 'unknown') return 'not known yet';
  if (one.trend !== 'linear') return one.trend;
  const sign = one.bytesPerDay < 0 ? '-' : '+';
  return `${sign}${bytes(Math.abs(one.bytesPerDay))} a day`;
}

/** The size at the end of the time that the measured time allows to look ahead. */
export function expectedText(one) {
  if (one?.trend !== 'linear') return '';
  const aheadMs = Math.min(AHEAD_MS_MAX, one.spanMs * CONTINUED);
  const then = Math.max(0, one.bytes + (one.bytesPerDay * aheadMs) / DAY_MS);
  return `${bytes(then)} in ${duration(aheadMs)}`;
}

/** The two columns of a table; `find(item)` returns the entry of `growthOf`. */
export const growthColumns = (find) => [
  {
    label: 'Growth',
    number: true,
    value: (item) => (find(item)?.trend === 'linear' ? find(item).bytesPerDay : 0),
    text: (item) => growthText(find(item)),
  },
  { label: 'Expected', number: true, sort: false, text: (item) => expectedText(find(item)) },
];
