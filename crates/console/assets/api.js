// Requests to the server's interface, and its errors.
import { answered, failed, loaded } from './contact.js';
import { dig, parse } from './ejson.js';
import { Composed, located } from './typed.js';

const TIMEOUT_MS = 60000;

/** An error of the server, or of the connection to it (`status` 0). */
export class ServerError extends Error {
  constructor({ message, code, codeName, status = 200 }) {
    super(message);
    this.code = code;
    this.codeName = codeName;
    this.status = status;
  }
}

const listeners = { login: () => {} };
/** Calls `handler` when a request needs a login. */
export const onLoginRequired = (handler) => {
  listeners.login = handler;
};

/** `isOfPage`: what it returns is shown by the page that is open. */
async function request(path, { isOfPage = true, ...options } = {}) {
  let response;
  const beganMs = Date.now();
  try {
    const { timeoutMs = TIMEOUT_MS, ...rest } = options;
    response = await fetch(path, {
      cache: 'no-store',
      credentials: 'same-origin',
      signal: AbortSignal.timeout(timeoutMs),
      ...rest,
    });
  } catch (error) {
    const message =
      error.name === 'TimeoutError' ? 'The server did not reply in time.' : 'The server cannot be reached.';
    failed(beganMs);
    throw new ServerError({ message, status: 0 });
  }
  answered();
  if (response.ok) {
    if (isOfPage) loaded();
    return response;
  }
  const body = await response.json().catch(() => ({}));
  const { code, codeName, message } = body.error ?? {};
  const error = new ServerError({
    message: message ?? `HTTP status ${response.status}`,
    code,
    codeName,
    status: response.status,
  });
  if (response.status === 401 && path !== 'api/login') listeners.login();
  throw error;
}

const post = (path, body, timeoutMs) =>
  request(path, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', 'x-nagi-console': '1' },
    timeoutMs,
  });

/** POST of a JSON document. */
export const postJson = async (path, body) => (await post(path, JSON.stringify(body))).json();

/** GET of a JSON document. */
export const get = async (path, options) => (await request(path, options)).json();

/** GET of a JSON document as text, which `ejson.js` reads without loss. */
export const getText = async (path) => (await request(path)).text();

/** Logs in; throws the server's error if it is refused. */
export const login = (user, password, db) => post('api/login', JSON.stringify({ user, password, db }));
export const logout = () => post('api/logout', '{}');

function check(reply) {
  if (Number(reply.ok?.$numberDouble ?? reply.ok) === 1) return;
  const code = Number(reply.code?.$numberInt ?? reply.code);
  throw new ServerError({ message: reply.errmsg ?? 'The command failed.', code, codeName: reply.codeName });
}

/**
 * Runs a command whose text may be in the shell's notation, and returns the text of the reply, which `ejson.js` reads
 * without loss. If the text is a `Composed`, errors in it name the place where it was typed. Options: `canonical`
 * requests canonical extended JSON, `timeoutMs` is how long to wait.
 */
export async function commandText(db, text, { canonical = false, timeoutMs } = {}) {
  const form = canonical ? ', "canonical": true' : '';
  const before = `{"db": ${JSON.stringify(db)}, "command": `;
  const whole = text instanceof Composed ? text.text : text;
  let response;
  try {
    response = await post('api/command', `${before}${whole}${form}}`, timeoutMs);
  } catch (error) {
    if (error.status === 400 && text instanceof Composed) {
      // It is about what was typed, not about a request that nobody has seen.
      throw new SyntaxError(located(error.message, before, text));
    }
    throw error;
  }
  const reply = await response.text();
  check(JSON.parse(reply));
  return reply;
}

/** Runs a command and returns its reply as an object. Throws ServerError if it failed. */
export const command = async (db, body, options) => JSON.parse(await commandText(db, JSON.stringify(body), options));

/** Like `command`, for a command in text. */
export const commandOf = async (db, text, options) => JSON.parse(await commandText(db, text, options));

/** Throws the first error of a reply to a write: its command's, a statement's, or of the write concern. */
export function checkWrite(reply) {
  const failed = reply.writeErrors?.[0];
  if (failed)
    throw new ServerError({ message: failed.errmsg, code: failed.code, codeName: failed.codeName ?? 'WriteError' });
  const concern = reply.writeConcernError;
  if (concern) throw new ServerError({ message: concern.errmsg, code: concern.code, codeName: concern.codeName });
  return reply;
}

/**
 * The documents of a cursor's first batch; the command asks for as many as it wants. The cursor is then closed.
 */
export async function documents(db, body) {
  const text = await commandText(db, JSON.stringify(body));
  const { cursor } = JSON.parse(text);
  await closeCursor(db, cursor.ns, text);
  return cursor.firstBatch;
}

/** Like `documents`, as Maps that keep the order of fields. */
export async function maps(db, commandBody) {
  const text = await commandText(db, commandBody);
  const cursor = dig(parse(text), 'cursor');
  await closeCursor(db, cursor.get('ns'), text);
  return cursor.get('firstBatch');
}

/** Closes the cursor of a reply in text, if it is open. Its id may be too large for a number of JavaScript. */
export async function closeCursor(db, ns, replyText) {
  const id = dig(parse(replyText), 'cursor', 'id');
  const digits = String(id instanceof Map ? id.get('$numberLong') : (id ?? 0));
  if (digits === '0' || !/^-?\d+$/.test(digits)) return;
  const collection = ns.slice(ns.indexOf('.') + 1);
  await command(db, { killCursors: collection, cursors: [{ $numberLong: digits }] }).catch(() => {});
}
