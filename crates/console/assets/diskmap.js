// The disk map: where in the files reads and writes land. All files stand in a row from left to right, by space and
// level, as wide as they are large; time moves down, the newest second is at the top.
import { get } from './api.js';
import { el, errorBox, section, setText, showError } from './dom.js';
import { table } from './table.js';
import { byteRate, bytes, exact } from './format.js';
import { colours, onTheme } from './charts.js';
import * as live from './live.js';

const SECONDS = 120;
const ROW = 2;
const LABELS = 30;
const HEIGHT = SECONDS * ROW + LABELS;
/** The table and the description are of so many seconds. */
const RECENT = 10;

export const nameOf = (segment) => (segment.space ? `${segment.space} L${segment.level}` : 'being written');

/**
 * The sums of the newest seconds by segment: `[{name, files, bytes, read, written}]` with bytes in a second. Samples of
 * another layout stand at other places, and are left out.
 */
export function sumsOf({ segments, layout, samples }, seconds = RECENT) {
  const recent = samples.slice(-seconds).filter((sample) => sample.n === layout);
  const within = (list, segment) =>
    list.reduce((sum, [column, n]) => sum + (column >= segment.from && column < segment.to ? n : 0), 0);
  // A column at a border may belong to two narrow segments: the first one has it.
  const taken = new Set();
  return segments.map((segment) => {
    const own = { ...segment };
    while (own.from < own.to && taken.has(own.from)) own.from++;
    for (let column = own.from; column < own.to; column++) taken.add(column);
    const sum = (name) =>
      recent.reduce((total, sample) => total + within(sample[name], own), 0) / Math.max(1, recent.length);
    return { name: nameOf(segment), files: segment.files, bytes: segment.bytes, read: sum('r'), written: sum('w') };
  });
}

/** The description of the picture. */
export function summary(map) {
  if (!map) return 'Disk map. Loading ...';
  if (!map.columns) return 'Disk map: the storage engine does not tell where it reads and writes.';
  const sums = sumsOf(map);
  const total = (name) => sums.reduce((sum, one) => sum + one[name], 0);
  const most = (name) => sums.reduce((best, one) => (one[name] > best[name] ? one : best), sums[0]).name;
  const part = (text, name) =>
    total(name) > 0 ? `${byteRate(total(name))} ${text}, most in ${most(name)}` : `nothing ${text}`;
  return `Disk map, last ${RECENT} seconds: ${part('read', 'read')}; ${part('written', 'written')}.`;
}

function paint(canvas, map, width) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${HEIGHT}px`;
  }
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  const [back, ink, line, read, written] = colours('panel', 'muted', 'line', 's1', 's2');
  g.globalAlpha = 1;
  g.fillStyle = back;
  g.fillRect(0, 0, width, HEIGHT);
  const column = width / (map.columns || 1);
  const newest = map.samples.at(-1)?.t ?? 0;
  for (const sample of map.samples) {
    const y = Math.round((newest - sample.t) / 1000) * ROW;
    if (y >= SECONDS * ROW || y < 0) continue;
    for (const [list, colour] of [
      [sample.r, read],
      [sample.w, written],
    ]) {
      g.fillStyle = colour;
      for (const [at, n] of list) {
        // From a block of 4 KiB to many MiB: the strength is by the logarithm.
        g.globalAlpha = Math.min(1, 0.3 + Math.log2(1 + n / 4096) / 16);
        g.fillRect(at * column, y, Math.max(1.5, column), ROW);
      }
    }
  }
  g.globalAlpha = 1;
  paintSegments(g, map, column, { ink, line });
}

function paintSegments(g, map, column, { ink, line }) {
  const bottom = SECONDS * ROW;
  g.strokeStyle = line;
  g.fillStyle = ink;
  g.font = '11px system-ui, sans-serif';
  g.textBaseline = 'top';
  g.textAlign = 'left';
  g.strokeRect(0.5, 0.5, map.columns * column - 1, bottom);
  let free = 0;
  for (const segment of map.segments) {
    const x = Math.round(segment.from * column) + 0.5;
    g.beginPath();
    g.moveTo(x, 0);
    g.lineTo(x, bottom + 6);
    g.stroke();
    const text = nameOf(segment);
    const room = (segment.to - segment.from) * column;
    const size = g.measureText(text).width;
    if (x >= free && size + 6 < room) {
      g.fillText(text, x + 3, bottom + 8);
      free = x + size + 6;
    }
  }
}

function segmentTable() {
  return table(
    [
      { label: 'Files of', value: (one) => one.name },
      { label: 'Files', value: (one) => one.files, text: (one) => (one.files ? exact(one.files) : ''), number: true },
      { label: 'Size', value: (one) => one.bytes, text: (one) => (one.bytes ? bytes(one.bytes) : ''), number: true },
      { label: 'Read', value: (one) => one.read, text: (one) => byteRate(Math.round(one.read)), number: true },
      { label: 'Written', value: (one) => one.written, text: (one) => byteRate(Math.round(one.written)), number: true },
    ],
    { label: 'Reads and writes by space and level', key: (one) => one.name, empty: 'There are no files.' },
  );
}

const swatch = (colour, text) => el('li', {}, el('span', { class: `swatch c-${colour}`, 'aria-hidden': 'true' }), text);

/** The section of the page. */
export function diskMapPart(cx) {
  const list = segmentTable();
  const words = el('p', { class: 'hint' }, summary(null));
  const absent = (text) => map || setText(words, text);
  const box = errorBox('clusterMonitor', list, { absent });
  const canvas = el('canvas', { height: HEIGHT, role: 'img', 'aria-label': 'Disk map', hidden: true });
  const node = el('div', { class: 'heatmap' }, canvas);
  let map = null;
  const draw = () => {
    if (!map || document.hidden || !node.clientWidth) return;
    canvas.hidden = !map.columns;
    if (map.columns) paint(canvas, map, node.clientWidth);
    const text = summary(map);
    canvas.setAttribute('aria-label', text);
    setText(words, text);
    list.show(sumsOf(map));
  };
  const load = async () => {
    try {
      const found = await get('api/disk');
      if (cx.left) return;
      map = found;
      showError(box, null);
      draw();
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  };
  const take = (sample) => {
    // Another layout: the segments are somewhere else now.
    if (!map || sample.n !== map.layout) {
      load();
      return;
    }
    if (sample.t > (map.samples.at(-1)?.t ?? 0)) map.samples.push(sample);
    while (map.samples.length > SECONDS) map.samples.shift();
    draw();
  };
  cx.onLeave(live.on('disk', take));
  cx.onLeave(onTheme(draw));
  const sizes = new ResizeObserver(draw);
  sizes.observe(node);
  cx.onLeave(() => sizes.disconnect());
  load();
  return section(
    'Disk map',
    el(
      'p',
      { class: 'hint' },
      'Where reads and writes of data files land while this page is open. From left to right all files, by kind of ' +
        'data and level; downwards the last two minutes.',
    ),
    el('ul', { class: 'legend' }, swatch('s1', 'read'), swatch('s2', 'written')),
    box,
    node,
    words,
    list.node,
  );
}
