// What caches of other sizes would do: the curve of expected hit rates, and a table of it.
import { reasonOf } from './contact.js';
import { el, fill, newId } from './dom.js';
import { table } from './table.js';
import { bytes, percent, plain } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';
const [WIDTH, HEIGHT] = [360, 150];
const [LEFT, RIGHT, TOP, BOTTOM] = [40, 12, 10, 24];

/** The points of an estimate of `serverStatus`: `[{times, bytes, rate}]`, and the bytes for 99 % or undefined. */
export function estimateOf(cache) {
  const estimate = cache?.estimate;
  if (!estimate) return null;
  const points = (estimate.sizes ?? []).map((one) => ({
    times: plain(one.times),
    bytes: plain(one.bytes),
    rate: plain(one.hitRate),
  }));
  if (!points.length) return null;
  return { points, sampled: plain(estimate.sampledReads), enough: plain(estimate.bytesFor99Percent) };
}

/** One sentence on what the present size is worth. */
export function verdict({ points, enough }) {
  const now = points.find((point) => point.times === 1);
  if (!now) return '';
  const best = points.at(-1);
  const next = points.find((point) => point.times === 2);
  const half = points.find((point) => point.times === 0.5);
  const goal = enough ? ` 99 % hits need ${bytes(enough)}.` : '';
  if (best.rate - now.rate < 0.01) {
    const less = half && now.rate - half.rate < 0.01 ? ' Half of it would do as well.' : '';
    return `A larger cache would hardly answer more reads.${less}`;
  }
  const gain = next && next.rate - now.rate >= 0.005 ? next : best;
  return `${percent(gain.rate)} of the reads instead of ${percent(now.rate)} with ${bytes(gain.bytes)}.${goal}`;
}

const shape = (tag, properties, text) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) node.setAttribute(name, String(value));
  if (text !== undefined) node.textContent = text;
  return node;
};

/** Sizes are on a logarithmic axis: every doubling has the same distance. */
function curve(label, { points }) {
  const logs = points.map((point) => Math.log2(point.times));
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const x = (times) => LEFT + ((Math.log2(times) - low) / (high - low || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (rate) => TOP + (1 - rate) * (HEIGHT - TOP - BOTTOM);
  const node = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'curve', role: 'img', 'aria-label': label });
  for (const rate of [0, 0.5, 1]) {
    node.append(shape('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(rate), y2: y(rate) }));
    node.append(shape('text', { x: LEFT - 5, y: y(rate) + 4, 'text-anchor': 'end' }, percent(rate)));
  }
  node.append(shape('line', { class: 'now', x1: x(1), x2: x(1), y1: TOP, y2: HEIGHT - BOTTOM }));
  node.append(shape('polyline', { points: points.map((point) => `${x(point.times)},${y(point.rate)}`).join(' ') }));
  for (const point of points) {
    node.append(shape('circle', { cx: x(point.times), cy: y(point.rate), r: 3 }));
    if (point.times !== 3)
      node.append(shape('text', { x: x(point.times), y: HEIGHT - 8, 'text-anchor': 'middle' }, `${point.times}x`));
  }
  return node;
}

/** The part of the page: `{node, show(caches), absent(text)}` with `nagi.memory.caches` of `serverStatus`. */
export function sizesPart() {
  const parts = [
    ['blocks', 'Blocks', 'the cache of blocks'],
    ['records', 'Documents', 'the cache of documents'],
  ].map(([name, title, text]) => {
    const [drawing, words] = [el('div'), el('p', { class: 'hint' }, reasonOf())];
    let isShown = false;
    const list = table(
      [
        { label: 'Size', value: (point) => point.bytes, text: (point) => bytes(point.bytes), number: true },
        {
          label: 'Of the present one',
          value: (point) => point.times,
          text: (point) => `${point.times}x`,
          number: true,
        },
        { label: 'Expected hits', value: (point) => point.rate, text: (point) => percent(point.rate), number: true },
      ],
      { label: `Expected hits of ${text} by its size`, key: (point) => point.times, sortBy: 0 },
    );
    const rows = el('details', { hidden: true }, el('summary', {}, 'As a table'), list.node);
    const caption = el('figcaption', { id: newId('sizes') }, title);
    const node = el('figure', { class: 'chart', 'aria-labelledby': caption.id }, caption, drawing, words, rows);
    const show = (cache) => {
      isShown = true;
      const estimate = estimateOf(cache);
      rows.hidden = !estimate;
      if (!estimate) {
        fill(drawing);
        fill(words, 'Not known yet: too few reads have reached this cache.');
        return;
      }
      const sentence = verdict(estimate);
      fill(drawing, curve(`Expected hits of ${text} by its size. ${sentence}`, estimate));
      fill(words, sentence);
      list.show(estimate.points);
    };
    const absent = (text) => {
      if (!isShown) fill(words, text);
    };
    return { name, node, show, absent };
  });
  return {
    node: el(
      'div',
      { class: 'charts' },
      parts.map((part) => part.node),
    ),
    show: (caches) => parts.forEach((part) => part.show(caches?.[part.name])),
    absent: (text) => parts.forEach((part) => part.absent(text)),
  };
}
