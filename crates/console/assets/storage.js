// Storage: reads and writes of files, flushes, compactions, pauses, free space and when it will be used up.
import { el, fill, section } from './dom.js';
import * as format from './format.js';
import { chart, chartGroup, gaugeOf, rateOf } from './charts.js';
import { activityPart } from './activity.js';
import { diskMapPart } from './diskmap.js';
import { oplogPart } from './oplog.js';
import { rangeChoice, savedRange, tiles } from './overview.js';
import * as live from './live.js';

const DAY_MS = 86400000;

/** When the disk will be full: `{text, note}`, by the line through the free space of the last hours. */
export function forecast(free, line) {
  if (free === null || free === undefined) return { text: '-', note: 'free space is not known' };
  if (!line) return { text: '-', note: 'needs 10 minutes of history' };
  const over = `from the last ${format.duration(line.spanMs)}`;
  const days = free / -line.perDay;
  // Slower growth than this cannot be told from noise over a few hours.
  if (line.perDay >= 0 || days > 365) return { text: 'not in a year', note: over };
  return { text: format.duration(days * DAY_MS), note: `${format.bytes(-line.perDay)} a day, ${over}` };
}

const share = (part, whole) => (part === null || !whole ? null : part / whole);

function storageTiles(cx) {
  const seen = () => forecast(live.value('disk.free'), live.trend('disk.free'));
  return tiles(cx, [
    [
      'Free space',
      () => format.bytes(live.value('disk.free')),
      () =>
        `${format.percent(share(live.value('disk.free'), live.value('disk.total')))} ` +
        `of ${format.bytes(live.value('disk.total'))}`,
    ],
    ['Disk full in', () => seen().text, () => seen().note],
    ['Data files', () => format.bytes(live.value('disk.used')), () => 'of this server'],
    [
      'Reads',
      () => format.byteRate(live.rate('disk.read')),
      () => `${format.rate(live.rate('disk.reads'))} reads of files`,
    ],
    [
      'Writes',
      () => format.byteRate(live.rate('disk.written')),
      () => `${format.byteRate(live.rate('disk.log.written'))} to the log`,
    ],
    [
      'Log syncs',
      () => format.rate(live.rate('disk.log.syncs')),
      () => `${format.rate(live.rate('ring.waits'))} waits for the ring buffer`,
    ],
    ['Flushes', () => format.count(live.value('flushes.running')), () => 'running now'],
    [
      'Compactions',
      () => format.count(live.value('compactions.running')),
      () => `${format.bytes(live.value('compactions.pending'))} pending`,
    ],
    [
      'Commits slowed down',
      () => format.micros(live.rate('governor.paused', 10)),
      () => 'pause in a second, by the governor',
    ],
    ['Spilled', () => format.byteRate(live.rate('spills.written')), () => 'sorts and groups on disk'],
  ]);
}

export function storagePage(cx) {
  const group = chartGroup(
    [
      chart(
        'Reads and writes of files',
        [rateOf('read', 'disk.read'), rateOf('written', 'disk.written'), rateOf('log', 'disk.log.written')],
        { unit: 'bytes/s' },
      ),
      chart('Compactions', [rateOf('read', 'compactions.read'), rateOf('written', 'compactions.written')], {
        unit: 'bytes/s',
      }),
      chart('Waiting for compaction', [gaugeOf('pending', 'compactions.pending')], { unit: 'bytes' }),
      chart('Running in the background', [
        gaugeOf('flushes', 'flushes.running'),
        gaugeOf('compactions', 'compactions.running'),
      ]),
      chart(
        'Time that commits waited, in a second',
        [rateOf('governor', 'governor.paused'), rateOf('ring buffer', 'ring.waited')],
        { unit: 'us' },
      ),
      chart('Log', [rateOf('syncs', 'disk.log.syncs'), rateOf('waits for the ring buffer', 'ring.waits')], {
        unit: '/s',
      }),
      chart('Free space', [gaugeOf('free', 'disk.free'), gaugeOf('used by this server', 'disk.used')], {
        unit: 'bytes',
      }),
      chart(
        'File reads and expired documents',
        [rateOf('reads of files', 'disk.reads'), rateOf('expired documents', 'ttl.deleted')],
        { unit: '/s' },
      ),
    ],
    savedRange(),
  );
  cx.onLeave(group.destroy);
  fill(
    cx.root,
    storageTiles(cx),
    diskMapPart(cx),
    section('Over time', el('div', { class: 'bar' }, rangeChoice(group)), group.node),
    oplogPart(cx),
    activityPart(cx),
  );
}
