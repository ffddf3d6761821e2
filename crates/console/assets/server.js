// The server: machine, options, parameters, warnings of the start.
import { command } from './api.js';
import { brief, code, el, errorBox, facts, field, fill, pending, section, setText, showError } from './dom.js';
import { table } from './table.js';
import * as contact from './contact.js';
import { bytes, duration, plain, time } from './format.js';
import { doctorPart } from './doctor.js';
import { logTable, readLine } from './log.js';

/** How long the server has been running; while it does not answer, as far as is known. */
export function ran(startedMs, { lostMs, answeredMs }, nowMs = Date.now()) {
  return duration((lostMs === null ? nowMs : (answeredMs ?? lostMs)) - startedMs);
}

/** A section that runs a command and shows its reply, or the error, in its place. */
function part(cx, title, body, show) {
  const slot = pending();
  const box = errorBox('clusterMonitor', slot);
  command('admin', body).then(
    (reply) => {
      if (!cx.left) slot.show(show(reply));
    },
    (error) => {
      if (!cx.left) showError(box, error);
    },
  );
  return section(title, box, slot.node);
}

function machine({ system = {}, os = {}, extra = {} }) {
  return facts([
    ['Host', system.hostname],
    ['System', `${os.name ?? ''} ${os.version ?? ''}`],
    ['Kernel', extra.kernelVersion],
    ['Processor', `${plain(system.numCores)} cores, ${system.cpuArch}`],
    ['Cores for this process', plain(system.numCoresAvailableToProcess)],
    ['Memory', bytes(plain(system.memSizeMB) * 1048576)],
    ['Memory limit', bytes(plain(system.memLimitMB) * 1048576)],
    ['Open files at most', plain(extra.maxOpenFiles)],
  ]);
}

function parameters(reply) {
  const all = Object.entries(reply)
    .filter(([name]) => name !== 'ok' && !name.startsWith('$') && name !== 'operationTime')
    .map(([name, value]) => ({ name, value: typeof value === 'object' ? JSON.stringify(value) : String(value) }));
  const list = table(
    [
      { label: 'Parameter', value: (one) => one.name },
      { label: 'Value', value: (one) => one.value, cls: 'mono prose', max: 600 },
    ],
    { label: 'Parameters', key: (one) => one.name, sortBy: 0 },
  );
  const search = el('input', { type: 'search', oninput: () => draw() });
  const draw = () => list.show(all.filter((one) => one.name.toLowerCase().includes(search.value.toLowerCase())));
  draw();
  return [el('div', { class: 'bar' }, field('Name contains', search)), list.node];
}

function warnings(reply) {
  const lines = (reply.log ?? []).map(readLine);
  if (!lines.length) return el('p', { class: 'hint' }, 'The start gave no warnings.');
  const list = logTable('Warnings of the start');
  list.show(lines);
  return list.node;
}

export function serverPage(cx) {
  const { session } = cx;
  const running = el('span', { class: 'running' });
  fill(
    cx.root,
    section(
      'Program',
      facts([
        ['Nagi', session.version],
        ['Compatible with MongoDB', session.compatibleVersion],
        ['Storage engine', session.storageEngine],
        ['Replica set', session.replicaSet ?? 'none'],
        ['Process', session.pid],
        ['Started', time(session.startedMs)],
        ['Running for', running],
        ['Authorization', session.authorization ? 'on' : 'off'],
        ['Logged in as', session.user ? brief(`${session.user}@${session.db}`) : 'no user'],
      ]),
    ),
    part(cx, 'Warnings of the start', { getLog: 'startupWarnings' }, warnings),
    doctorPart(cx),
    part(cx, 'Machine', { hostInfo: 1 }, machine),
    part(cx, 'Options', { getCmdLineOpts: 1 }, (reply) => [
      code((reply.argv ?? []).join(' '), 'Command line'),
      code(JSON.stringify(reply.parsed ?? {}, null, 2), 'Options in force'),
    ]),
    part(cx, 'Parameters', { getParameter: '*' }, parameters),
  );
  cx.every(1000, () => setText(running, ran(session.startedMs, contact.state())));
}
