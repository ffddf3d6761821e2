// Charts over time by uPlot: colours of the theme, own legend with values, a summary for screen readers.
import { el, fill, setText } from './dom.js';
import { byUnit, clock } from './format.js';
import * as live from './live.js';

const HEIGHT = 150;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [4, 2], [1, 2]];

/** The theme's colours as the canvas needs them: a custom property is not resolved, the colour of an element is. */
export function colours(...names) {
  const probe = el('span', { class: 'probe' });
  document.body.append(probe);
  const found = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}

/** Calls `handler` when the colours change. Returns the function that ends it. */
export function onTheme(handler) {
  const media = matchMedia('(prefers-color-scheme: dark)');
  media.addEventListener('change', handler);
  document.addEventListener('nagi-theme', handler);
  return () => {
    media.removeEventListener('change', handler);
    document.removeEventListener('nagi-theme', handler);
  };
}

/** Seconds that a range shows. */
const SPANS = { short: 600, long: 6 * 3600 };
/** Steps of an axis of bytes: its labels are then whole numbers of KiB, MiB and so on. */
const POWERS = Array.from({ length: 60 }, (_, i) => 2 ** i);
const RANGE_TEXT = { short: 'last 10 minutes', long: 'last 6 hours' };

/**
 * A chart of some series. Each series: `{label, read(range), colour}`, where `read` returns a value for each time.
 * Options: `unit` (of format.js), `stacked`, `max` (a fixed upper end).
 *
 * Returns `{node, draw(range), destroy()}`.
 */
export function chart(title, series, options = {}) {
  const format = byUnit(options.unit);
  const values = series.map(() => el('b'));
  const legend = el(
    'ul',
    { class: 'legend' },
    series.map((one, i) =>
      el(
        'li',
        {},
        el('span', { class: `swatch c-${one.colour ?? `s${i + 1}`}`, 'aria-hidden': 'true' }),
        `${one.label} `,
        values[i],
      ),
    ),
  );
  const holder = el('div', { class: 'plot', role: 'img' });
  const node = el('figure', { class: 'chart' }, el('figcaption', {}, title), legend, holder);
  const colourNames = series.map((one, i) => one.colour ?? `s${i + 1}`);
  let plot = null;
  let drawn = { range: 'short', columns: [] };

  function build() {
    plot?.destroy();
    holder.replaceChildren();
    plot = new window.uPlot(
      plotOptions({
        series,
        format,
        colourNames,
        options,
        width: holder.clientWidth || 300,
        span: () => SPANS[drawn.range],
        onHover: showValues,
      }),
      drawn.columns,
      holder,
    );
  }

  function showValues(index) {
    series.forEach((_, i) => {
      const column = drawn.raw?.[i] ?? [];
      setText(values[i], format(column[index ?? column.length - 1] ?? null));
    });
  }

  function draw(range) {
    const raw = series.map((one) => one.read(range));
    drawn = { range, raw, columns: [live.times(range), ...(options.stacked ? stack(raw) : raw)] };
    if (!plot) build();
    else plot.setData(drawn.columns);
    showValues(plot.cursor.idx ?? null);
    holder.setAttribute('aria-label', summary(title, range, series, raw, format));
  }

  const sizes = new ResizeObserver(() => {
    if (plot && holder.clientWidth && plot.width !== holder.clientWidth)
      plot.setSize({ width: holder.clientWidth, height: HEIGHT });
  });
  sizes.observe(holder);
  const endTheme = onTheme(() => {
    if (plot) build();
  });
  return {
    node,
    draw,
    destroy() {
      sizes.disconnect();
      endTheme();
      plot?.destroy();
      fill(holder);
    },
  };
}

/** What screen readers say of a chart. */
function summary(title, range, series, raw, format) {
  const parts = series.map((one, i) => {
    const known = raw[i].filter((v) => v !== null && v !== undefined);
    if (!known.length) return `${one.label}: no values`;
    return `${one.label}: now ${format(raw[i].at(-1))}, highest ${format(Math.max(...known))}`;
  });
  return `${title}, ${RANGE_TEXT[range]}. ${parts.join('; ')}`;
}

/** Adds each series to the ones before it. */
function stack(columns) {
  let below = null;
  return columns.map((column) => {
    below = column.map((v, i) => (v === null || v === undefined ? (below?.[i] ?? null) : v + (below?.[i] ?? 0)));
    return below;
  });
}

function plotOptions({ series, format, colourNames, options, width, span, onHover }) {
  const [ink, line, ...lines] = colours('muted', 'line', ...colourNames);
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
  };
  const all = series.map((one, i) => ({
    label: one.label,
    stroke: lines[i],
    width: 1.5,
    dash: options.stacked ? [] : DASHES[i % DASHES.length],
    points: { show: false },
    spanGaps: false,
  }));
  const bands = options.stacked
    ? series.map((_, i) => (i ? { series: [i + 1, i], fill: faded(lines[i]) } : null)).filter(Boolean)
    : [];
  if (options.stacked) all[0].fill = faded(lines[0]);
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: 'nagi' }, points: { size: 5 } },
    scales: {
      x: { time: true, range: (_, low, high) => [(high ?? Date.now() / 1000) - span(), high ?? Date.now() / 1000] },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(options.max ?? 0, (high ?? 0) * 1.1) || 1] },
    },
    axes: [
      { ...axis, space: 70, size: 24, values: (_, ticks) => ticks.map((t) => clock(t * 1000).slice(0, 5)) },
      {
        ...axis,
        size: 64,
        space: 28,
        ...(/^bytes/.test(options.unit ?? '') ? { incrs: POWERS } : {}),
        values: (_, ticks) => ticks.map((v) => format(v)),
      },
    ],
    series: [{}, ...all],
    bands,
    hooks: { setCursor: [(plot) => onHover(plot.cursor.idx ?? null)] },
  };
}

const faded = (colour) => colour.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.35)');

/**
 * Charts that are drawn together on every sample while the page is visible. `node` is the grid; `setRange` and
 * `destroy` are for the page.
 */
export function chartGroup(charts, range) {
  let current = range;
  const node = el(
    'div',
    { class: 'charts' },
    charts.map((one) => one.node),
  );
  const draw = () => {
    if (!document.hidden && node.isConnected) charts.forEach((one) => one.draw(current));
  };
  const ends = [live.on('sample', draw)];
  document.addEventListener('visibilitychange', draw);
  // The nodes get their widths when the page is in the document.
  requestAnimationFrame(draw);
  return {
    node,
    setRange(next) {
      current = next;
      draw();
    },
    destroy() {
      ends.forEach((end) => end());
      document.removeEventListener('visibilitychange', draw);
      charts.forEach((one) => one.destroy());
    },
  };
}

/** A series of increases per second of a counter. */
export const rateOf = (label, name, colour) => ({ label, colour, read: (range) => live.rates(name, range) });
/** A series of values of a gauge. */
export const gaugeOf = (label, name, colour) => ({ label, colour, read: (range) => live.gauges(name, range) });
/** A series of a ratio of two counters' increases, such as the average latency. */
export const ratioOf = (label, top, bottom, colour) => ({
  label,
  colour,
  read: (range) => live.ratios(top, bottom, range),
});
