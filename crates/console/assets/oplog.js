// The window of the oplog: from when on a reader finds all changes.
import { command } from './api.js';
import { el, errorBox, facts, pending, section, showError } from './dom.js';
import { bytes, duration, percent, plain, time } from './format.js';

const HOUR_MS = 3600000;
/** Less time says nothing about a full oplog. */
const SPAN_MS_MIN = 600000;

/** The milliseconds of a timestamp in extended JSON. */
const msOf = (value) => (value?.$timestamp ? Number(value.$timestamp.t) * 1000 : undefined);

/**
 * The facts of the oplog from `serverStatus` and `collStats`:
 * `{firstMs, lastMs, spanMs, size, most, hoursMin, fullMs}`. `fullMs` is the time that a full oplog will have at the
 * present rate; undefined if it is full, or young.
 */
export function oplogWindow(status, stats) {
  const [firstMs, lastMs] = [msOf(status?.oplog?.earliestOptime), msOf(status?.oplog?.latestOptime)];
  const [size, most] = [plain(stats?.size), plain(stats?.maxSize)];
  const spanMs = firstMs === undefined || lastMs === undefined ? undefined : lastMs - firstMs;
  const young = spanMs === undefined || spanMs < SPAN_MS_MIN || !size || !most || size >= most * 0.95;
  return {
    firstMs,
    lastMs,
    spanMs,
    size,
    most,
    hoursMin: plain(status?.oplogTruncation?.oplogMinRetentionHours),
    fullMs: young ? undefined : (spanMs * most) / size,
  };
}

function show(slot, window) {
  if (window.spanMs === undefined) {
    slot.show(el('p', { class: 'hint' }, 'The oplog has no entries.'));
    return;
  }
  slot.show(
    facts([
      ['Window', duration(window.spanMs)],
      ['First entry', time(window.firstMs)],
      ['Newest entry', time(window.lastMs)],
      ['Size', `${bytes(window.size)} of ${bytes(window.most)} (${percent(window.size / window.most)})`],
      ['Window when it is full', window.fullMs && `${duration(window.fullMs)} at the rate of the present window`],
      ['Kept at least', window.hoursMin ? duration(window.hoursMin * HOUR_MS) : undefined],
    ]),
  );
}

/** The section of the page; none without a replica set. */
export function oplogPart(cx) {
  if (!cx.session?.replicaSet) return null;
  const slot = pending();
  const box = errorBox('clusterMonitor', slot);
  cx.every(10000, async () => {
    try {
      const [status, stats] = await Promise.all([
        command('admin', { serverStatus: 1, none: true, oplog: true, oplogTruncation: true }),
        command('local', { collStats: 'oplog.rs' }),
      ]);
      if (cx.left) return;
      showError(box, null);
      show(slot, oplogWindow(status, stats));
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  });
  return section(
    'Change log',
    el(
      'p',
      { class: 'hint' },
      'Change streams, connectors and archives of backups must read within this window, or begin anew.',
    ),
    box,
    slot.node,
  );
}
