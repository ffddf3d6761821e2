// Whether the server answers, and of when what a page shows is: the pages say so while it does not answer.
import { clock } from './format.js';

/** When the server answered last, when it was found not to answer (null: it does), when the page got its data. */
const known = { answeredMs: null, lostMs: null, loadedMs: null };
const listeners = new Set();

/** Calls `handler` when the server ceases to answer, or answers again. */
export const onContact = (handler) => listeners.add(handler);

function setLost(lostMs) {
  if (known.lostMs === lostMs) return;
  known.lostMs = lostMs;
  listeners.forEach((handler) => handler());
}

/** The server has answered a request, or sent an event. */
export function answered(nowMs = Date.now()) {
  known.answeredMs = nowMs;
  setLost(null);
}

/**
 * A request that began at `beganMs` got no answer. If others were answered since then, the server is there: this one
 * takes long.
 */
export function failed(beganMs, nowMs = Date.now()) {
  if (known.answeredMs !== null && known.answeredMs > beganMs) return;
  setLost(known.lostMs ?? nowMs);
}

/** The page that is open has got data. */
export function loaded(nowMs = Date.now()) {
  known.loadedMs = nowMs;
}

/** Another page is opened, whose data are of `loadedMs`, or null without any. */
export function opened(loadedMs) {
  known.loadedMs = loadedMs;
}

export const state = () => ({ ...known });

/**
 * What a page must say of the data that it shows, or ''. `showsFigures`: it shows the figures of the stream, which is
 * in the state `stream`.
 */
export function noticeOf({ lostMs, loadedMs }, showsFigures, stream) {
  if (lostMs !== null) {
    const last = loadedMs === null ? '' : `; last figures of ${clock(loadedMs)}`;
    return `The server does not answer since ${clock(lostMs)}${last}.`;
  }
  if (showsFigures && stream === 'refused') return 'No figures: needs the role clusterMonitor.';
  return '';
}

/** Why something is not known, after an error or (without one) before a reply. `role` suffices for the request. */
export function reasonOf(error, role) {
  if (!error) return 'Loading ...';
  if (error.status === 0) return 'Not known: the server does not answer.';
  if (error.code === 13) return role ? `Not known: needs the role ${role}.` : 'Not known: a right is missing.';
  return 'Not known: the request failed.';
}
