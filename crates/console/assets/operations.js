// Current operations: what runs now, for how long, and a button that ends it; on request what is open and idle.
import { command, documents } from './api.js';
import {
  announce,
  brief,
  button,
  checkBox,
  choice,
  code,
  confirm,
  el,
  errorBox,
  fill,
  fills,
  select,
  setText,
  showError,
} from './dom.js';
import { table } from './table.js';
import { clock, micros, plain } from './format.js';

const UNAUTHORIZED = 13;

/** Requests of drivers that wait for news. There are as many as clients, and they wait the longest. */
const WAITING = [
  { 'command.topologyVersion': { $exists: true } },
  { 'command.getMore': { $exists: true }, 'cursor.awaitData': true },
];

/** Reads operations; of all users, or of the own user if that is not allowed. */
async function read(options) {
  const stage = (allUsers) => ({
    aggregate: 1,
    pipeline: [
      {
        $currentOp: {
          allUsers,
          idleConnections: options.idle,
          idleSessions: options.sessions,
          idleCursors: options.idle,
        },
      },
      // Before the limit: what waits would take all places of what works.
      ...(options.idle ? [] : [{ $match: { $nor: WAITING } }]),
      { $sort: { microsecs_running: -1 } },
      { $limit: 501 },
    ],
    cursor: { batchSize: 501 },
  });
  try {
    return { all: true, operations: await documents('admin', stage(true)) };
  } catch (error) {
    if (error.code !== UNAUTHORIZED) throw error;
    return { all: false, operations: await documents('admin', stage(false)) };
  }
}

/** Returns true for the request of this page itself. */
const isOwn = (operation) => operation.command?.pipeline?.[0]?.$currentOp !== undefined;
const isIdleSession = (operation) => operation.type === 'idleSession';

/** The time in microseconds for which an operation has run; of an idle session the time without a statement. */
export function elapsed(operation) {
  if (isIdleSession(operation)) return plain(operation.transaction?.timeInactiveMicros) ?? 0;
  return plain(operation.microsecs_running) ?? (plain(operation.secs_running) ?? 0) * 1e6;
}

export function elapsedText(operation) {
  if (isIdleSession(operation)) return `idle for ${micros(elapsed(operation))}`;
  return operation.active === false ? 'idle' : micros(elapsed(operation));
}

/** What `op` says of a statement of `update`, `delete` or `bulkWrite`: its command is the statement, without a name. */
const STATEMENTS = ['insert', 'update', 'remove'];

export function nameOf(operation) {
  if (isIdleSession(operation)) return brief(operation.desc ?? operation.type, 80);
  if (operation.msg) return brief(operation.msg, 80);
  if (STATEMENTS.includes(operation.op)) return operation.op;
  // A command that was cut begins with a note of that.
  const first = Object.keys(operation.command ?? {}).find((name) => name !== '$truncated');
  return first ?? operation.op ?? operation.type ?? '';
}

/** What an operation waits for, or ''. */
function waitsFor(operation) {
  if (operation.waitingForLock) return 'waits for the lock of fsync';
  if (operation.waitingForTransaction) return 'waits for a transaction of another client';
  if (operation.waitingForWrite) return 'waits for another write of the same document or key';
  if (operation.waitingForDisk) return 'waits for the disk to take its commit';
  return operation.currentQueue ? 'waits for a ticket' : '';
}

/**
 * What of an operation is done, or what it waits for; of an idle session how long it is open, and when the server will
 * end it.
 */
export function progress(operation) {
  if (isIdleSession(operation)) {
    const { timeOpenMicros, expiryTime } = operation.transaction ?? {};
    const ends = Date.parse(expiryTime ?? '');
    return `open for ${micros(plain(timeOpenMicros))}${Number.isNaN(ends) ? '' : `, aborted at ${clock(ends)}`}`;
  }
  const waits = waitsFor(operation);
  if (waits) return waits;
  return operation.progress?.total ? `${operation.progress.done} of ${operation.progress.total}` : '';
}

/** The same for the same operation, session, cursor or connection. */
export function keyOf(operation) {
  if (isIdleSession(operation)) return `session ${JSON.stringify(operation.lsid ?? operation.connectionId)}`;
  const cursor = operation.cursor?.cursorId;
  return String(operation.opid ?? cursor?.$numberLong ?? cursor ?? operation.connectionId ?? nameOf(operation));
}

const users = (operation) => (operation.effectiveUsers ?? []).map((one) => `${one.user}@${one.db}`).join(', ');

function operationTable(showOne, killOne) {
  return table(
    [
      {
        label: 'Time',
        value: elapsed,
        text: elapsedText,
        number: true,
      },
      { label: 'Operation', value: nameOf },
      { label: 'Namespace', value: (op) => op.ns ?? '', cls: 'name' },
      { label: 'Plan', value: (op) => op.planSummary ?? '', cls: 'name' },
      { label: 'Docs', value: (op) => plain(op.docsExamined) ?? null, number: true },
      { label: 'Progress', value: progress, cls: 'name' },
      { label: 'Client', value: (op) => op.client ?? '' },
      { label: 'Application', value: (op) => op.appName ?? '' },
      { label: 'User', value: users },
      {
        label: 'Actions',
        sort: false,
        cls: 'buttons',
        node: (op, current) => [
          button('Details', () => showOne(current()), {
            class: 'small',
            'aria-label': `Details of operation ${op.opid ?? ''}`,
          }),
          op.opid === undefined
            ? null
            : button('Kill', () => killOne(current()), {
                class: 'small danger',
                'aria-label': `Kill operation ${op.opid}`,
              }),
        ],
      },
    ],
    {
      label: 'Current operations',
      key: keyOf,
      sortBy: 0,
      descending: true,
      empty: 'No operation runs now.',
      cls: 'stacked',
    },
  );
}

function showDetails(details, op) {
  details.hidden = false;
  const text = JSON.stringify(op, null, 2);
  fill(
    details,
    el('h2', {}, isIdleSession(op) ? 'Idle session' : `Operation ${op.opid ?? ''}`),
    code(text, 'Operation'),
    button(
      'Close',
      () => {
        details.hidden = true;
      },
      { class: 'quiet' },
    ),
  );
  details.scrollIntoView({ block: 'nearest' });
}

/** Kills an operation after a confirmation. Resolves to true if the server was told to. */
async function kill(box, op) {
  const sure = await confirm({
    title: `Kill operation ${op.opid}?`,
    action: 'Kill operation',
    text:
      `${nameOf(op)} on ${op.ns || 'no collection'}, running for ${micros(elapsed(op))}. ` +
      'Its client gets the error 11601 (Interrupted).',
    detail: brief(JSON.stringify(op.command ?? {}, null, 2), 3000),
  });
  if (!sure) return false;
  try {
    await command('admin', { killOp: 1, op: op.opid });
    showError(box, null);
    announce(`Operation ${op.opid} was told to stop.`);
    return true;
  } catch (error) {
    showError(box, error);
    return false;
  }
}

const IDLE = [
  ['no', 'hide'],
  ['yes', 'show'],
];
const EVERY = [
  ['1000', 'each second'],
  ['2000', 'each 2 s'],
  ['5000', 'each 5 s'],
  ['0', 'paused'],
];

export function operationsPage(cx) {
  const options = { idle: false, sessions: false, every: 1000, filter: '' };
  const [box, note] = [errorBox(), el('p', { class: 'hint' })];
  const details = el('div', { class: 'details', hidden: true });
  let latest = null;
  const list = operationTable(
    (op) => showDetails(details, op),
    async (op) => {
      if (await kill(box, op)) load();
    },
  );

  fills(box, list);

  function draw() {
    if (!latest) return;
    const words = options.filter.toLowerCase();
    const matches = (op) => !words || JSON.stringify(op).toLowerCase().includes(words);
    list.show(latest.filter((op) => !isOwn(op) && matches(op)));
  }

  async function load() {
    try {
      const { all, operations } = await read(options);
      if (cx.left) return;
      latest = operations;
      showError(box, null);
      setText(note, all ? '' : 'Only operations of your own user are shown: the action inprog is not granted.');
      draw();
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  }

  const search = el('input', { type: 'search', 'aria-label': 'Filter by text', placeholder: 'Filter by text' });
  search.addEventListener('input', () => {
    options.filter = search.value;
    draw();
  });
  const setIdle = (value) => {
    options.idle = value === 'yes';
    load();
  };
  const setSessions = (isShown) => {
    options.sessions = isShown;
    load();
  };
  const setEvery = (value) => {
    options.every = Number(value);
  };
  const controls = [
    search,
    choice('Idle', IDLE, 'no', setIdle),
    checkBox('Idle sessions', setSessions),
    select(EVERY, '1000', setEvery, { 'aria-label': 'Refresh' }),
    button('Refresh', load, { class: 'quiet' }),
  ];
  fill(cx.root, el('div', { class: 'bar' }, controls), box, note, list.node, details);
  // A paused page looks at its setting each second.
  let last = 0;
  cx.every(1000, async () => {
    if (!options.every || Date.now() - last < options.every - 100) return;
    last = Date.now();
    await load();
  });
}
