// Memory: what the process uses, by pool, against the budget; hit rates of the caches.
import { command } from './api.js';
import { el, errorBox, fill, section, setText, showError } from './dom.js';
import { table } from './table.js';
import * as format from './format.js';
import { chart, chartGroup, gaugeOf, rateOf } from './charts.js';
import { rangeChoice, savedRange, tiles } from './overview.js';
import { sizesPart } from './sizes.js';
import * as live from './live.js';

const POOL = 'memory.pool.';

/**
 * What the budget is used for: `[name, bytes]`. The engine charges memtables to the cache of blocks, as reservations
 * that may be larger than what is resident; resident memory beyond all of it is the last part.
 */
export function memoryParts(read, names) {
  const parts = [
    ['cache of blocks, with memtables', read('memory.blocks')],
    ['cache of documents', read('memory.records')],
    ...names.filter((name) => name.startsWith(POOL)).map((name) => [name.slice(POOL.length), read(name)]),
  ].filter(([, bytes]) => bytes > 0);
  const known = parts.reduce((total, [, bytes]) => total + bytes, 0);
  const rest = (read('memory.resident') ?? 0) - known;
  if (rest > 0) parts.push(['everything else', rest]);
  return parts;
}

function stackedBar(cx) {
  const bar = el('div', { class: 'stack', role: 'img' });
  const legend = el('ul', { class: 'legend' });
  const draw = () => {
    if (document.hidden) return;
    const why = live.absence();
    if (why) {
      fill(bar);
      fill(legend, el('li', {}, why));
      bar.setAttribute('aria-label', `Memory by use. ${why}`);
      return;
    }
    const parts = memoryParts(live.value, live.names());
    const used = parts.reduce((total, [, bytes]) => total + bytes, 0);
    const bound = live.value('memory.bound') ?? live.value('memory.budget');
    const whole = Math.max(used, bound ?? 0) || 1;
    fill(
      bar,
      parts.map(([name, bytes], i) => {
        const piece = el('span', { class: `piece c-s${(i % 8) + 1}`, title: `${name}: ${format.bytes(bytes)}` });
        piece.style.width = `${(bytes / whole) * 100}%`;
        return piece;
      }),
    );
    const free = bound === null ? null : bound - used;
    fill(
      legend,
      parts.map(([name, bytes], i) =>
        el(
          'li',
          {},
          el('span', { class: `swatch c-s${(i % 8) + 1}`, 'aria-hidden': 'true' }),
          `${name} `,
          el('b', {}, format.bytes(bytes)),
        ),
      ),
      free > 0
        ? el(
            'li',
            {},
            el('span', { class: 'swatch c-none', 'aria-hidden': 'true' }),
            'below the bound ',
            el('b', {}, format.bytes(free)),
          )
        : null,
    );
    bar.setAttribute('aria-label', `Memory by use, ${format.bytes(used)} of ${format.bytes(bound)}`);
  };
  cx.onLeave(live.on('sample', draw));
  cx.onLeave(live.on('state', draw));
  draw();
  return [bar, legend];
}

function poolTable() {
  return table(
    [
      { label: 'Pool', value: (pool) => pool.name },
      { label: 'Used', value: (pool) => pool.used, text: (pool) => format.bytes(pool.used), number: true },
      { label: 'Highest', value: (pool) => pool.peak, text: (pool) => format.bytes(pool.peak), number: true },
      { label: 'Limit', value: (pool) => pool.limit, text: (pool) => format.bytes(pool.limit), number: true },
      { label: 'Of limit', value: (pool) => pool.share, text: (pool) => format.percent(pool.share), number: true },
      { label: 'Requests that waited', value: (pool) => pool.waited, number: true },
      { label: 'Requests refused', value: (pool) => pool.refused, number: true },
    ],
    {
      label: 'Pools of memory',
      key: (pool) => pool.name,
      sortBy: 1,
      descending: true,
      empty: 'The server does not report pools.',
    },
  );
}

function poolRows(status) {
  const pools = status?.nagi?.memory?.pools;
  if (!pools) {
    return live
      .names()
      .filter((name) => name.startsWith(POOL))
      .map((name) => ({ name: name.slice(POOL.length), used: live.value(name) ?? 0 }));
  }
  return Object.entries(pools).map(([name, pool]) => {
    const [used, limit] = [format.plain(pool.usedBytes), format.plain(pool.limitBytes)];
    return {
      name,
      used,
      limit,
      peak: format.plain(pool.peakBytes),
      share: limit ? used / limit : undefined,
      waited: format.plain(pool.waited),
      refused: format.plain(pool.refused),
    };
  });
}

function hitRate(hits, misses, seconds) {
  const [hit, miss] = [live.rate(hits, seconds), live.rate(misses, seconds)];
  return hit === null || miss === null || hit + miss === 0 ? null : hit / (hit + miss);
}

const hitSeries = (label, hits, misses) => ({
  label,
  read: (range) => {
    const missed = live.rates(misses, range);
    return live
      .rates(hits, range)
      .map((hit, i) => (hit === null || missed[i] === null || hit + missed[i] === 0 ? null : hit / (hit + missed[i])));
  },
});

const cacheNote = (used, limit) => `${format.bytes(live.value(used))} of ${format.bytes(live.value(limit))}`;

const memoryCharts = () => [
  chart(
    'Resident memory',
    [
      gaugeOf('resident', 'memory.resident'),
      gaugeOf('allocated', 'memory.allocated'),
      gaugeOf('budget', 'memory.budget', 's4'),
      gaugeOf('bound', 'memory.bound', 'warn'),
    ],
    { unit: 'bytes' },
  ),
  chart(
    'Caches',
    [
      gaugeOf('blocks', 'memory.blocks'),
      gaugeOf('documents', 'memory.records'),
      gaugeOf('memtables', 'memory.memtables'),
    ],
    { unit: 'bytes' },
  ),
  chart(
    'Hit rate',
    [hitSeries('blocks', 'cache.hits', 'cache.misses'), hitSeries('documents', 'records.hits', 'records.misses')],
    { unit: 'share', max: 1 },
  ),
  chart(
    'Requests that waited or were refused',
    [rateOf('waited', 'memory.waits'), rateOf('refused', 'memory.refusals', 'warn')],
    { unit: '/s' },
  ),
];

const memoryTiles = (cx) =>
  tiles(cx, [
    [
      'Resident',
      () => format.bytes(live.value('memory.resident')),
      () => `of at most ${format.bytes(live.value('memory.bound'))}`,
    ],
    ['Budget', () => format.bytes(live.value('memory.budget')), () => 'what the server plans with'],
    [
      'Block cache hits',
      () => format.percent(hitRate('cache.hits', 'cache.misses', 10)),
      () => cacheNote('memory.blocks', 'memory.blocks.limit'),
    ],
    [
      'Document cache hits',
      () => format.percent(hitRate('records.hits', 'records.misses', 10)),
      () => cacheNote('memory.records', 'memory.records.limit'),
    ],
    ['Memtables', () => format.bytes(live.value('memory.memtables')), () => 'writes not yet flushed'],
    ['Page faults', () => format.rate(live.rate('page.faults')), () => 'of the process'],
  ]);

export function memoryPage(cx) {
  const group = chartGroup(memoryCharts(), savedRange());
  cx.onLeave(group.destroy);
  const pools = poolTable();
  const sizes = sizesPart();
  const [box, more] = [errorBox('clusterMonitor', pools, sizes), el('p', { class: 'hint' })];
  fill(
    cx.root,
    memoryTiles(cx),
    section(
      'By use',
      stackedBar(cx),
      el('p', { class: 'hint' }, 'Memory is reserved before it is used, so the sum may be above the resident memory.'),
    ),
    section('Pools', box, pools.node, more),
    section(
      'Other sizes of the caches',
      sizes.node,
      el(
        'p',
        { class: 'hint' },
        'Estimated from a sample of the reads of the last minutes, as if nothing else changed.',
      ),
    ),
    section('Over time', el('div', { class: 'bar' }, rangeChoice(group)), group.node),
  );
  cx.every(3000, async () => {
    const status = await command('admin', { serverStatus: 1, none: true, nagi: true }).catch((error) => {
      if (!cx.left) showError(box, error);
    });
    if (cx.left || !status) return;
    showError(box, null);
    pools.show(poolRows(status));
    const memory = status.nagi?.memory;
    sizes.show(memory?.caches);
    if (memory)
      setText(
        more,
        `Highest resident memory ${format.bytes(format.plain(memory.residentBytesMax))}; ` +
          `above the bound ${format.exact(format.plain(memory.timesOverBound))} times; ` +
          `caches made smaller ${format.exact(format.plain(memory.squeezes))} times.`,
      );
  });
}
