// Overview: figures in tiles, the heat map of latencies with stalls, charts over time.
import { choice, el, fill, section, setText } from './dom.js';
import { table } from './table.js';
import * as format from './format.js';
import { chart, chartGroup, gaugeOf, rateOf, ratioOf } from './charts.js';
import { heatmap } from './heatmap.js';
import * as live from './live.js';

const KINDS = { all: ['reads', 'writes', 'commands'], reads: ['reads'], writes: ['writes'], commands: ['commands'] };
const OPERATIONS = ['query', 'insert', 'update', 'delete', 'getmore', 'command'];

/** The range of charts is remembered for all pages. */
export function savedRange() {
  try {
    return localStorage.getItem('nagi-range') === 'long' ? 'long' : 'short';
  } catch {
    return 'short';
  }
}

/** The choice of the range, applied to a group of charts. */
export function rangeChoice(group) {
  return choice(
    'Range',
    [
      ['short', '10 minutes'],
      ['long', '6 hours'],
    ],
    savedRange(),
    (range) => {
      try {
        localStorage.setItem('nagi-range', range);
      } catch {
        // The choice then lasts until the page is left.
      }
      group.setRange(range);
    },
  );
}

/**
 * Tiles of figures: `[label, () => text, () => note]`. They are drawn on every sample while the page is visible.
 */
export function tiles(cx, list) {
  const parts = list.map(([label, value, note]) => {
    const [strong, small] = [el('dd', { class: 'figure' }), el('dd', { class: 'note' })];
    return { node: el('div', { class: 'tile' }, el('dt', {}, label), strong, small), strong, small, value, note };
  });
  const draw = () => {
    if (document.hidden) return;
    const isKnown = live.absence() === null;
    for (const part of parts) {
      setText(part.strong, isKnown ? part.value() : '-');
      setText(part.small, (isKnown && part.note?.()) || '');
    }
  };
  cx.onLeave(live.on('sample', draw));
  draw();
  return el(
    'dl',
    { class: 'tiles' },
    parts.map((part) => part.node),
  );
}

const sum = (names, read) =>
  names.reduce((total, name) => {
    const n = read(name);
    return n === null ? total : (total ?? 0) + n;
  }, null);

function averageText(kind) {
  const n = live.rate(`latency.${kind}.count`, 5);
  const us = live.rate(`latency.${kind}.us`, 5);
  return n ? format.micros(us / n) : '-';
}

function cpuShare() {
  const us = sum(['cpu.user', 'cpu.system'], (name) => live.rate(name));
  return us === null ? null : us / 1e6;
}

function overviewTiles(cx) {
  return tiles(cx, [
    [
      'Operations',
      () =>
        format.rate(
          sum(
            OPERATIONS.map((name) => `ops.${name}`),
            (name) => live.rate(name),
          ),
        ),
      () =>
        `${format.count(live.value('active.readers'))} reading, ${format.count(live.value('active.writers'))} writing`,
    ],
    ['Reads take', () => averageText('reads'), () => quantileNote('reads')],
    ['Writes take', () => averageText('writes'), () => quantileNote('writes')],
    [
      'Waiting',
      () => format.count(sum(['queue.readers', 'queue.writers', 'queue.lock'], live.value)),
      () => (live.value('queue.lock') > 0 ? 'for a ticket or the lock of fsync' : 'for a ticket'),
    ],
    [
      'Connections',
      () => format.count(live.value('connections.current')),
      () =>
        `${format.count(live.value('connections.active'))} active, ` +
        `${format.count(live.value('connections.available'))} free`,
    ],
    ['CPU', () => (cpuShare() === null ? '-' : `${format.percent(cpuShare())}`), () => 'of one core'],
    [
      'Memory',
      () => format.bytes(live.value('memory.resident')),
      () => `of ${format.bytes(live.value('memory.bound') ?? live.value('memory.budget'))}`,
    ],
    [
      'Network',
      () => format.byteRate(sum(['network.in', 'network.out'], (name) => live.rate(name))),
      () => `${format.rate(live.rate('network.requests'))} requests`,
    ],
    [
      'Disk',
      () => format.byteRate(sum(['disk.read', 'disk.written', 'disk.log.written'], (name) => live.rate(name))),
      () => `${format.bytes(live.value('disk.free'))} free`,
    ],
    ['Read per result', () => scanRatio(), () => `documents; ${format.rate(live.rate('collection.scans', 5))} scans`],
  ]);
}

function quantileNote(kind) {
  const [half, most] = live.quantiles([0.5, 0.99], 10, [kind]);
  return half === null ? 'none in 10 s' : `half < ${format.micros(half)}, 99 % < ${format.micros(most)}`;
}

function scanRatio() {
  const [scanned, returned] = [live.rate('documents.scanned', 10), live.rate('documents.returned', 10)];
  return returned ? format.count(scanned / returned) : '-';
}

function overviewCharts() {
  return [
    chart(
      'Operations per second',
      OPERATIONS.map((name) => rateOf(name, `ops.${name}`)),
      { unit: '/s' },
    ),
    chart(
      'Average latency',
      ['reads', 'writes', 'commands'].map((kind) => ratioOf(kind, `latency.${kind}.us`, `latency.${kind}.count`)),
      { unit: 'us' },
    ),
    chart(
      'CPU, share of one core',
      [
        { label: 'user', read: (range) => live.rates('cpu.user', range).map((n) => (n === null ? null : n / 1e6)) },
        { label: 'system', read: (range) => live.rates('cpu.system', range).map((n) => (n === null ? null : n / 1e6)) },
      ],
      { unit: 'share', stacked: true },
    ),
    chart('Memory', [gaugeOf('resident', 'memory.resident'), gaugeOf('allocated', 'memory.allocated')], {
      unit: 'bytes',
    }),
    chart('Network', [rateOf('in', 'network.in'), rateOf('out', 'network.out')], { unit: 'bytes/s' }),
    chart('Disk', [rateOf('read', 'disk.read'), rateOf('written', 'disk.written'), rateOf('log', 'disk.log.written')], {
      unit: 'bytes/s',
    }),
    chart('Connections', [gaugeOf('open', 'connections.current'), gaugeOf('active', 'connections.active')]),
    chart(
      'Held back by the machine',
      [
        rateOf('CPU quota', 'host.throttled'),
        rateOf('waiting for CPU', 'host.stalled.cpu'),
        rateOf('waiting for disk', 'host.stalled.io'),
        rateOf('waiting for memory', 'host.stalled.memory'),
      ],
      { unit: 'us' },
    ),
  ];
}

/** The list of stalls, newest first, numbered as in the heat map. */
function stallList(cx) {
  const list = table(
    [
      { label: 'No.', value: (stall) => stall.number, number: true },
      { label: 'From', value: (stall) => stall.fromMs, text: (stall) => format.time(stall.fromMs) },
      {
        label: 'Lasted',
        value: (stall) => stall.toMs - stall.fromMs,
        text: (stall) => format.duration(stall.toMs - stall.fromMs),
        number: true,
      },
      {
        label: 'Longest operation',
        value: (stall) => stall.longestUs,
        text: (stall) => format.micros(stall.longestUs),
        number: true,
      },
      { label: 'Operations', value: (stall) => stall.operations, number: true },
      { label: 'Cause', value: causes, cls: 'prose', max: 600 },
    ],
    {
      label: 'Stalls',
      key: (stall) => stall.fromMs,
      empty: "No stall since the server's start.",
      cls: 'stacked',
    },
  );
  const draw = () => {
    if (document.hidden) return;
    const why = live.absence();
    const numbered = live.stalls().map((stall, i) => ({ ...stall, number: i + 1 }));
    if (why) list.clear(why);
    else list.show(numbered.reverse());
  };
  cx.onLeave(live.on('stall', draw));
  cx.onLeave(live.on('state', draw));
  draw();
  return list.node;
}

const causes = (stall) => (stall.causes ?? []).map((one) => one.text || one.cause).join('; ') || 'not known';

/** Says that the disk is full, while it is. */
function writesStopped(cx) {
  const node = el(
    'p',
    { class: 'notice', role: 'status', hidden: true },
    'The disk is full: writes are refused until there is free space.',
  );
  const draw = () => {
    node.hidden = live.value('write.stopped') !== 1;
  };
  cx.onLeave(live.on('sample', draw));
  draw();
  return node;
}

export function overviewPage(cx) {
  const map = heatmap();
  const group = chartGroup(overviewCharts(), savedRange());
  cx.onLeave(() => {
    map.destroy();
    group.destroy();
  });
  fill(
    cx.root,
    writesStopped(cx),
    overviewTiles(cx),
    section(
      'Latencies',
      el(
        'div',
        { class: 'bar' },
        choice(
          'Operations',
          Object.keys(KINDS).map((kind) => [kind, kind]),
          'all',
          (kind) => map.setKinds(KINDS[kind]),
        ),
        el(
          'p',
          { class: 'hint' },
          'Each column is a second of the last 10 minutes. The stronger the colour of a cell, the more operations ' +
            'took that long. Marked: stalls.',
        ),
      ),
      map.node,
    ),
    section('Stalls', stallList(cx)),
    section('Over time', el('div', { class: 'bar' }, rangeChoice(group)), group.node),
  );
  map.draw();
}
