// The history of figures, kept current by the stream of the server. Pages read series from it and are told of every
// new sample.
import { get } from './api.js';
import * as contact from './contact.js';

const FINE_MAX = 601;
const COARSE_MAX = 1441;
const COARSE_MS = 15000;
const RETRY_MS = 2000;
/** A sample comes each second. After this time without one the server does not run, or the network is gone. */
const SILENT_MS = 6000;
/** Rights may be granted while the page is open. */
const REFUSED_RETRY_MS = 30000;

const fine = { every: 1000, most: FINE_MAX, samples: [] };
const coarse = { every: COARSE_MS, most: COARSE_MAX, samples: [] };
let position = new Map();
let latencySamples = [];
let bounds = [];
let stallList = [];
let source = null;
let retry = null;
let generation = 0;
let watch = null;
let sampledMs = null;
const EVENTS = ['sample', 'stall', 'alert', 'work', 'disk', 'state'];
const listeners = Object.fromEntries(EVENTS.map((name) => [name, new Set()]));
let state = 'starting';

/** Calls `handler` on 'sample', 'stall', 'alert', 'work', 'disk' or 'state'; returns the function that ends it. */
export function on(event, handler) {
  listeners[event].add(handler);
  return () => listeners[event].delete(handler);
}
const tell = (event, value) => listeners[event].forEach((handler) => handler(value));

function setState(next) {
  if (state === next) return;
  state = next;
  tell('state', next);
}
export const currentState = () => state;

/** Loads the history and opens the stream; continues to try until `stop`. */
export async function start() {
  stop();
  const mine = ++generation;
  try {
    await loadHistory();
  } catch (error) {
    if (mine !== generation) return;
    // What the user may not see any more is not shown any more.
    if (error.status === 401 || error.status === 403) forget();
    setState({ 401: 'login', 403: 'refused' }[error.status] ?? 'lost');
    if (error.status !== 401) retry = setTimeout(start, error.status === 403 ? REFUSED_RETRY_MS : RETRY_MS);
    return;
  }
  if (mine !== generation) return;
  sampledMs = Date.now();
  tell('sample');
  tell('stall');
  watch = setInterval(listen, 1000);
  source = new EventSource('api/stream');
  source.addEventListener('open', () => setState('live'));
  source.addEventListener('sample', (event) => takeSample(JSON.parse(event.data)));
  source.addEventListener('stall', (event) => takeStall(JSON.parse(event.data)));
  source.addEventListener('work', (event) => tell('work', JSON.parse(event.data)));
  source.addEventListener('disk', (event) => tell('disk', JSON.parse(event.data)));
  source.addEventListener('alert', (event) => tell('alert', JSON.parse(event.data)));
  source.addEventListener('error', () => {
    // The browser would reconnect by itself, but the samples in between would be missing: the history is loaded again.
    if (mine !== generation) return;
    stop();
    // Why the stream ended, the next requests tell: the server may have stopped, or a right was lost.
    setState('lost');
    retry = setTimeout(start, RETRY_MS);
  });
}

/** Notices that no samples come although the connection is open, as when the machine of the server stands still. */
function listen() {
  if (state !== 'live' || Date.now() - sampledMs < SILENT_MS) return;
  contact.failed(sampledMs, sampledMs);
  setState('silent');
}

/** Closes the stream. */
export function stop() {
  generation++;
  clearTimeout(retry);
  clearInterval(watch);
  source?.close();
  source = null;
}

/** Forgets all figures, as those of another user. */
export function forget() {
  position = new Map();
  fine.samples = [];
  coarse.samples = [];
  latencySamples = [];
  stallList = [];
  sampledMs = null;
  tell('sample');
  tell('stall');
}

async function loadHistory() {
  const paths = ['api/figures', `api/figures?every=${COARSE_MS}`, 'api/latencies', 'api/stalls'];
  const read = paths.map((path) => get(path, { isOfPage: false }));
  const [recent, long, latencies, stalls] = await Promise.all(read);
  position = new Map(recent.figures.map((figure, i) => [figure.name, i + 1]));
  fine.samples = recent.samples.slice(-FINE_MAX);
  coarse.samples = long.samples.slice(-COARSE_MAX);
  bounds = latencies.boundsUs;
  latencySamples = latencies.samples.slice(-FINE_MAX);
  stallList = stalls.stalls.slice(-200);
}

function takeSample({ t, v, l }) {
  const last = fine.samples.at(-1);
  if (last && t <= last[0]) {
    if (last[0] - t < 5000) return;
    // The machine's clock was set back.
    fine.samples = [];
    coarse.samples = [];
    latencySamples = [];
  }
  const sample = [t, ...v];
  push(fine, sample);
  if (t - (coarse.samples.at(-1)?.[0] ?? 0) >= COARSE_MS) push(coarse, sample);
  sampledMs = Date.now();
  contact.answered(sampledMs);
  latencySamples.push([t, l ?? {}]);
  if (latencySamples.length > FINE_MAX) latencySamples.shift();
  setState('live');
  tell('sample');
}

function push(history, sample) {
  history.samples.push(sample);
  if (history.samples.length > history.most) history.samples.shift();
}

function takeStall(stall) {
  const i = stallList.findIndex((known) => known.fromMs === stall.fromMs);
  if (i >= 0) stallList[i] = stall;
  else stallList.push(stall);
  if (stallList.length > 200) stallList.shift();
  tell('stall');
}

/** When the newest figures came, or null without any. */
export const loadedMs = () => sampledMs;

/** Why there are no figures, or null if there are some. */
export function absence() {
  if (position.size) return null;
  if (state === 'refused') return contact.reasonOf({ code: 13 }, 'clusterMonitor');
  return contact.reasonOf(state === 'lost' || state === 'silent' ? { status: 0 } : null);
}

/** The stalls, newest last. */
export const stalls = () => stallList;
/** The lower bounds of the buckets of latencies in microseconds, and the samples `[t, {reads, writes, commands}]`. */
export const latencies = () => ({ boundsUs: bounds, samples: latencySamples });

/** Returns true if the server has this figure. */
export const has = (name) => position.has(name);
/** The names of all figures. */
export const names = () => [...position.keys()];
const historyOf = (range) => (range === 'long' ? coarse : fine);

/** The newest value of a gauge or counter, or null. */
export function value(name) {
  const at = position.get(name);
  return at === undefined ? null : (fine.samples.at(-1)?.[at] ?? null);
}

/** The times of a range ('short': 10 minutes, 'long': 6 hours) in seconds, as uPlot needs them. */
export const times = (range) => historyOf(range).samples.map((sample) => sample[0] / 1000);

/** Values of a gauge, one for each time. */
export function gauges(name, range) {
  const at = position.get(name);
  return historyOf(range).samples.map((sample) => (at === undefined ? null : (sample[at] ?? null)));
}

/**
 * Increase of a counter per second, one for each time. Null at the first sample, after a restart (a smaller value) and
 * after a gap.
 */
export function rates(name, range) {
  const history = historyOf(range);
  const at = position.get(name);
  return history.samples.map((sample, i) =>
    i && at !== undefined ? slope(history.samples[i - 1], sample, at, history.every) : null,
  );
}

function slope(before, after, at, every) {
  const [from, to] = [before[at], after[at]];
  const ms = after[0] - before[0];
  if (from === null || to === null || from === undefined || to === undefined || to < from || ms <= 0) return null;
  if (ms > every * 3.5) return null;
  return ((to - from) * 1000) / ms;
}

/** The newest rate of a counter over the last `seconds`, or null. */
export function rate(name, seconds = 2) {
  const at = position.get(name);
  const after = fine.samples.at(-1);
  const before = fine.samples.at(-1 - seconds) ?? fine.samples[0];
  if (at === undefined || !after || before === after) return null;
  return slope(before, after, at, fine.every * seconds);
}

/** The increase of `top` for one of `bottom`, one for each time; null where `bottom` did not change. */
export function ratios(top, bottom, range) {
  const above = rates(top, range);
  return rates(bottom, range).map((n, i) => (n > 0 && above[i] !== null ? above[i] / n : null));
}

/**
 * Latencies of the last `seconds` at quantiles of 0 to 1 in microseconds: the upper bound of the bucket, or nulls
 * without operations.
 */
export function quantiles(qs, seconds = 10, kinds = ['reads', 'writes', 'commands']) {
  const counts = new Map();
  let total = 0;
  for (const [, sample] of latencySamples.slice(-seconds)) {
    for (const kind of kinds) {
      for (const [i, n] of sample[kind] ?? []) {
        counts.set(i, (counts.get(i) ?? 0) + n);
        total += n;
      }
    }
  }
  const sorted = [...counts].sort((a, b) => a[0] - b[0]);
  return qs.map((q) => {
    let left = q * total;
    for (const [i, n] of sorted) {
      left -= n;
      if (left <= 0) return bounds[i + 1] ?? bounds[i];
    }
    return null;
  });
}

/**
 * The line through the values of a gauge over the 6 hours, by least squares: `{perDay, spanMs}`, or null with less
 * than ten minutes.
 */
export function trend(name) {
  const at = position.get(name);
  const points = coarse.samples.filter((sample) => at !== undefined && sample[at] !== null && sample[at] !== undefined);
  const spanMs = points.length ? points.at(-1)[0] - points[0][0] : 0;
  if (spanMs < 600000) return null;
  const mean = (pick) => points.reduce((sum, point) => sum + pick(point), 0) / points.length;
  const [t, v] = [mean((point) => point[0]), mean((point) => point[at])];
  const above = points.reduce((sum, point) => sum + (point[0] - t) * (point[at] - v), 0);
  const below = points.reduce((sum, point) => sum + (point[0] - t) ** 2, 0);
  return { perDay: (above / below) * 86400000, spanMs };
}
