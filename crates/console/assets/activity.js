// The newest flushes, compactions and loads of the engine, and events of memory.
import { get } from './api.js';
import { el, errorBox, section, select, field, showError } from './dom.js';
import { table } from './table.js';
import { bytes, count, exact, micros, time } from './format.js';
import * as live from './live.js';

const EVENTS_MAX = 300;

/** Where an event took place, and what it moved. */
export function placeOf(event) {
  if (event.kind === 'memory') return '';
  if (event.kind !== 'compaction') return event.space;
  return `${event.space}, level ${event.fromLevel} to ${event.toLevel}`;
}

/** What is left after an event, in words. */
export function resultOf(event) {
  if (event.kind === 'memory') return event.count === 1 ? 'once' : `${exact(event.count)} times`;
  if (event.failed) return 'failed';
  if (event.kind !== 'compaction') return `${count(event.entriesWritten)} entries`;
  if (event.bytesRead === 0 && event.entriesRead === 0) return 'files moved as they are';
  const dropped = event.entriesRead - event.entriesWritten;
  return dropped > 0 ? `${count(dropped)} old entries dropped` : `${count(event.entriesWritten)} entries`;
}

const moved = (files, size) => (files ? `${bytes(size)} in ${exact(files)}` : '');

function eventTable() {
  return table(
    [
      { label: 'Ended', value: (one) => one.atMs, text: (one) => time(one.atMs) },
      { label: 'Event', value: (one) => one.kind },
      { label: 'Where', value: placeOf },
      { label: 'Why', value: (one) => one.reason },
      {
        label: 'Took',
        value: (one) => one.micros,
        text: (one) => (one.micros ? micros(one.micros) : ''),
        number: true,
      },
      {
        label: 'Read',
        value: (one) => one.bytesRead,
        text: (one) => moved(one.filesRead, one.bytesRead),
        number: true,
      },
      {
        label: 'Written, files',
        value: (one) => one.bytesWritten,
        text: (one) => moved(one.filesWritten, one.bytesWritten),
        number: true,
      },
      { label: 'Result', value: resultOf },
    ],
    {
      label: 'Events of the storage engine and of memory',
      key: (one) => one.key,
      sortBy: 0,
      descending: true,
      empty: 'Nothing has happened yet.',
      rowClass: (one) => (one.failed ? 'severity-E' : ''),
    },
  );
}

/** The section of the page. */
export function activityPart(cx) {
  const list = eventTable();
  const box = errorBox('clusterMonitor', list);
  let [all, kind, number, isLoaded] = [[], 'all', 0, false];
  const draw = () => {
    if (isLoaded && !document.hidden) list.show(kind === 'all' ? all : all.filter((one) => one.kind === kind));
  };
  const add = (events) => {
    all = [...all, ...events.map((one) => ({ ...one, key: ++number }))].slice(-EVENTS_MAX);
    draw();
  };
  const load = async () => {
    try {
      const { events } = await get('api/events');
      if (cx.left) return;
      showError(box, null);
      [all, isLoaded] = [[], true];
      add(events);
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  };
  cx.onLeave(live.on('work', ({ events }) => add(events)));
  // After a loss of the connection, events in between are in the history.
  cx.onLeave(live.on('state', () => live.currentState() === 'live' && load()));
  load();
  const kinds = select([['all', 'all'], 'flush', 'compaction', 'load', 'memory'], 'all', (next) => {
    kind = next;
    draw();
  });
  return section('Events', el('div', { class: 'bar' }, field('Kind', kinds)), box, list.node);
}
