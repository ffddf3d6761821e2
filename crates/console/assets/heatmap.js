// The heat map of latencies: time to the right, time taken upwards, the colour is the number of operations. Stalls
// are bands over it, numbered as in the list below it.
import { el, setText } from './dom.js';
import { clock, count, micros } from './format.js';
import { colours, onTheme } from './charts.js';
import * as live from './live.js';

const HEIGHT = 220;
const LEFT = 64;
const BOTTOM = 22;
const SPAN_SECONDS = 600;

/** Sums the kinds of one sample: an array of [bucket, count]. */
function cells(sample, kinds) {
  const sums = new Map();
  for (const kind of kinds) for (const [i, n] of sample[kind] ?? []) sums.set(i, (sums.get(i) ?? 0) + n);
  return [...sums];
}

/** Returns `{node, draw(), setKinds(kinds), destroy()}`. */
export function heatmap() {
  let kinds = ['reads', 'writes', 'commands'];
  let pointed = null;
  let view = null;
  const canvas = el('canvas', { height: HEIGHT, tabindex: '0', role: 'img', 'aria-label': 'Heat map of latencies' });
  const read = el('p', { class: 'hint reading', 'aria-live': 'polite' });
  const node = el('div', { class: 'heatmap' }, canvas, read);

  function draw() {
    const width = node.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(HEIGHT * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(HEIGHT * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${HEIGHT}px`;
    }
    const g = canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    view = layout(width, kinds);
    paint(g, view, pointed);
    canvas.setAttribute('aria-label', summary(view));
  }

  function point(next) {
    if (!view) return;
    pointed = next && { x: clamp(next.x, 0, SPAN_SECONDS - 1), y: clamp(next.y, view.low, view.high) };
    draw();
    setText(read, pointed ? reading(view, pointed) : '');
  }

  canvas.addEventListener('mousemove', (event) => {
    if (!view) return;
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const inside = x >= LEFT && y <= HEIGHT - BOTTOM;
    point(
      inside ? { x: Math.floor((x - LEFT) / view.cellWidth), y: view.high - Math.floor(y / view.cellHeight) } : null,
    );
  });
  canvas.addEventListener('mouseleave', () => point(null));
  canvas.addEventListener('blur', () => point(null));
  canvas.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step || !view) return;
    event.preventDefault();
    const from = pointed ?? { x: SPAN_SECONDS - 2, y: view.low - step[1] };
    point({ x: from.x + step[0] * (event.shiftKey ? 10 : 1), y: from.y + step[1] });
  });

  const tick = () => {
    if (!document.hidden && node.isConnected) draw();
  };
  const ends = [live.on('sample', tick), live.on('stall', tick), onTheme(tick)];
  document.addEventListener('visibilitychange', tick);
  const sizes = new ResizeObserver(tick);
  sizes.observe(node);
  return {
    node,
    draw,
    setKinds(next) {
      kinds = next;
      draw();
    },
    destroy() {
      ends.forEach((end) => end());
      document.removeEventListener('visibilitychange', tick);
      sizes.disconnect();
    },
  };
}

const clamp = (n, low, high) => Math.min(high, Math.max(low, n));

function layout(width, kinds) {
  const { boundsUs, samples } = live.latencies();
  const endMs = samples.at(-1)?.[0] ?? Date.now();
  const fromMs = endMs - SPAN_SECONDS * 1000;
  const columns = new Map();
  let [low, high, most, total] = [Infinity, -1, 0, 0];
  for (const [t, sample] of samples) {
    const x = Math.round((t - fromMs) / 1000) - 1;
    if (x < 0) continue;
    const column = cells(sample, kinds);
    columns.set(x, [...(columns.get(x) ?? []), ...column]);
    for (const [i, n] of column) {
      low = Math.min(low, i);
      high = Math.max(high, i);
      most = Math.max(most, n);
      total += n;
    }
  }
  if (high < 0) [low, high] = [0, 20];
  // A map of very few rows would jump with every sample.
  high = Math.min(Math.max(high, low + 12), Math.max(boundsUs.length - 1, 12));
  return {
    boundsUs,
    columns,
    low,
    high,
    most,
    total,
    fromMs,
    endMs,
    width,
    cellWidth: (width - LEFT) / SPAN_SECONDS,
    cellHeight: (HEIGHT - BOTTOM) / (high - low + 1),
  };
}

function paint(g, view, pointed) {
  const [back, ink, line, hot, warn] = colours('panel', 'muted', 'line', 'heat', 'warn');
  g.globalAlpha = 1;
  g.fillStyle = back;
  g.fillRect(0, 0, view.width, HEIGHT);
  g.fillStyle = hot;
  const top = (i) => (view.high - i) * view.cellHeight;
  for (const [x, column] of view.columns) {
    for (const [i, n] of column) {
      // Counts range from one to many thousands: the colour is by their logarithm.
      g.globalAlpha = 0.2 + 0.8 * (Math.log1p(n) / Math.log1p(view.most));
      g.fillRect(
        LEFT + x * view.cellWidth,
        top(i),
        Math.max(1, view.cellWidth + 0.3),
        Math.max(1, view.cellHeight - 0.5),
      );
    }
  }
  g.globalAlpha = 1;
  paintAxes(g, view, ink, line, top);
  paintStalls(g, view, warn);
  if (pointed) {
    g.strokeStyle = ink;
    g.strokeRect(
      LEFT + pointed.x * view.cellWidth - 1,
      top(pointed.y),
      Math.max(3, view.cellWidth) + 2,
      view.cellHeight,
    );
  }
}

function paintAxes(g, view, ink, line, top) {
  g.font = '11px system-ui, sans-serif';
  g.fillStyle = ink;
  g.strokeStyle = line;
  g.textAlign = 'right';
  g.textBaseline = 'middle';
  const every = Math.max(1, Math.ceil(18 / view.cellHeight));
  for (let i = view.low; i <= view.high; i += every) {
    if (view.boundsUs[i] !== undefined)
      g.fillText(micros(view.boundsUs[i]), LEFT - 6, clamp(top(i) + view.cellHeight, 6, HEIGHT - BOTTOM));
  }
  g.strokeRect(LEFT, 0, view.width - LEFT, HEIGHT - BOTTOM);
  g.textAlign = 'center';
  g.textBaseline = 'top';
  const minutes = view.width > 600 ? 1 : 2;
  const step = minutes * 60000;
  for (let t = Math.ceil(view.fromMs / step) * step; t < view.endMs; t += step) {
    const x = LEFT + ((t - view.fromMs) / 1000) * view.cellWidth;
    if (x > LEFT + 16 && x < view.width - 16) g.fillText(clock(t).slice(0, 5), x, HEIGHT - BOTTOM + 5);
  }
}

function paintStalls(g, view, warn) {
  g.strokeStyle = warn;
  g.fillStyle = warn;
  const all = live.stalls();
  all.forEach((stall, i) => {
    const from = LEFT + Math.max(0, (stall.fromMs - view.fromMs) / 1000) * view.cellWidth;
    const to = LEFT + ((stall.toMs - view.fromMs) / 1000) * view.cellWidth;
    if (stall.toMs < view.fromMs || from > view.width) return;
    const width = Math.max(3, Math.min(to, view.width) - from);
    g.globalAlpha = 0.18;
    g.fillRect(from, 0, width, HEIGHT - BOTTOM);
    g.globalAlpha = 1;
    // Half a pixel aside, lines of one pixel are sharp.
    g.strokeRect(Math.round(from) + 0.5, 0.5, Math.round(width), HEIGHT - BOTTOM);
    g.textAlign = 'left';
    g.textBaseline = 'top';
    g.fillText(String(i + 1), Math.min(from + 3, view.width - 20), 3);
  });
}

function bucketText(view, i) {
  const [from, to] = [view.boundsUs[i], view.boundsUs[i + 1]];
  return to === undefined ? `${micros(from)} and more` : `${micros(from)} to ${micros(to)}`;
}

function reading(view, { x, y }) {
  const n = view.columns.get(x)?.find(([i]) => i === y)?.[1] ?? 0;
  const noun = n === 1 ? 'operation' : 'operations';
  return `${clock(view.fromMs + (x + 1) * 1000)}, ${bucketText(view, y)}: ${count(n)} ${noun}`;
}

function summary(view) {
  const why = live.absence();
  if (why) return `Heat map of latencies. ${why}`;
  if (!view.total) return 'Heat map of latencies: no operations in the last 10 minutes.';
  const sums = new Map();
  for (const column of view.columns.values()) for (const [i, n] of column) sums.set(i, (sums.get(i) ?? 0) + n);
  const [usual] = [...sums].sort((a, b) => b[1] - a[1])[0];
  const slowest = Math.max(...sums.keys());
  return (
    `Heat map of latencies, last 10 minutes: ${count(view.total)} operations, most took ${bucketText(view, usual)}, ` +
    `the slowest ${bucketText(view, slowest)}. Arrow keys read single cells.`
  );
}
