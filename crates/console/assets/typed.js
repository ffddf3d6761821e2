// Text that was typed in the notation of the shell, as a part of a request: calls that mongosh would evaluate are
// replaced by their values, and the positions in errors of the server are found in what was typed.
import { skipQuoted, skipRegex, typed } from './ejson.js';

const CALL = /(new\s+)?(Date\.now|Date|ISODate|ObjectId|UUID)\s*\(/y;
const WORD = /[\w$.]/;

/** A typed text. Each of `pieces` is `{text, at, isTyped}`: what is sent, and where it stands in `source`. */
export class Part {
  constructor(label, source, pieces) {
    Object.assign(this, { label, source, pieces });
  }

  get text() {
    return this.pieces.map((piece) => piece.text).join('');
  }

  /** What stands between the brackets, without a comma at its end. */
  inner() {
    const length = this.text.slice(0, -1).trimEnd().replace(/,$/, '').trimEnd().length;
    return this.slice(1, length);
  }

  slice(from, to) {
    const kept = [];
    let start = 0;
    for (const { text, at, isTyped } of this.pieces) {
      const [first, last] = [Math.max(0, from - start), Math.min(text.length, to - start)];
      if (first < last) kept.push({ text: text.slice(first, last), at: isTyped ? at + first : at, isTyped });
      start += text.length;
    }
    return new Part(this.label, this.source, kept);
  }

  /** Where a character of the text stands in the field, for people. */
  place(offset) {
    let rest = offset;
    let at = this.source.trimEnd().length;
    for (const piece of this.pieces) {
      if (rest < piece.text.length) {
        at = piece.at + (piece.isTyped ? rest : 0);
        break;
      }
      rest -= piece.text.length;
    }
    return place(this.label, this.source, at);
  }
}

function place(label, source, at) {
  const lines = source.slice(0, at).split('\n');
  return `${label}, line ${lines.length}, column ${[...lines.at(-1)].length + 1}`;
}

/**
 * The text of the field `label`, which is one object (`open` is "{") or array ("[").
 *
 * Throws SyntaxError if brackets or quotes do not close, or a call cannot be evaluated.
 */
export function typedPart(label, source, open = '{') {
  let text;
  try {
    text = typed(source, open);
  } catch (error) {
    throw new SyntaxError(`${label}: ${error.message}`);
  }
  const start = source.trim() ? source.indexOf(text) : 0;
  return new Part(
    label,
    source,
    evaluated(text, start, (at) => place(label, source, at)),
  );
}

/** The pieces of a text that stands at `start`; calls are replaced. */
function evaluated(text, start, placeOf, nowMs = Date.now()) {
  const pieces = [];
  let [from, i, before] = [0, 0, ''];
  while (i < text.length) {
    const skipped = behind(text, i, before);
    if (skipped > i) {
      [i, before] = [skipped, '"'];
      continue;
    }
    const call = WORD.test(text[i - 1] ?? '') ? null : callAt(text, i);
    if (call) {
      const value = valueOf(call, nowMs, placeOf(start + i));
      if (value !== null) {
        if (i > from) pieces.push({ text: text.slice(from, i), at: start + from, isTyped: true });
        pieces.push({ text: value, at: start + i, isTyped: false });
        from = call.end;
      }
      [i, before] = [call.end, ')'];
      continue;
    }
    if (text[i].trim()) before = text[i];
    i++;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), at: start + from, isTyped: true });
  return pieces;
}

/** The position behind a string or regular expression that begins at `i`, or `i`. */
function behind(text, i, before) {
  const c = text[i];
  if (c === '"' || c === "'") return skipQuoted(text, i, c) + 1;
  return c === '/' && ':,[('.includes(before) ? skipRegex(text, i) + 1 : i;
}

/** The call that begins at `i`: `{isNew, name, inner, end}`, or null. */
function callAt(text, i) {
  CALL.lastIndex = i;
  const found = CALL.exec(text);
  if (!found) return null;
  let depth = 1;
  for (let at = CALL.lastIndex; at < text.length; at++) {
    if (text[at] === '"' || text[at] === "'") at = skipQuoted(text, at, text[at]);
    else if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth === 0) {
      const inner = text.slice(i + found[0].length, at).trim();
      return { isNew: Boolean(found[1]), name: found[2], inner, end: at + 1 };
    }
  }
  return null;
}

const dateText = (ms) => `{"$date": {"$numberLong": "${ms}"}}`;
const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
const random = (count) => crypto.getRandomValues(new Uint8Array(count));

/** The value of a call as mongosh evaluates it, or null if the server reads the call as it is. */
function valueOf({ isNew, name, inner }, nowMs, where) {
  const refuse = (why) => {
    throw new SyntaxError(`${where}: ${why}`);
  };
  if (name === 'Date.now') return inner ? refuse('Date.now() takes no argument') : `${nowMs}.0`;
  if (name === 'ObjectId' && !inner) return `{"$oid": "${objectId(nowMs)}"}`;
  if (name === 'UUID' && !inner) return `{"$uuid": "${uuid()}"}`;
  if (name === 'ISODate' && !inner) return dateText(nowMs);
  if (name !== 'Date') return null;
  if (!isNew) return refuse('Date() is a text; a date is new Date() or ISODate()');
  if (!inner) return dateText(nowMs);
  const quoted = /^(["'])([^"'\\]*)\1$/.exec(inner);
  const ms = quoted ? Date.parse(quoted[2]) : dateOf(inner, nowMs);
  return Number.isFinite(ms) ? dateText(Math.trunc(ms)) : refuse(`new Date(${inner.slice(0, 40)}) is not a date`);
}

/** The milliseconds of `5`, `Date.now() - 864e5` or `2026, 0, 31`, or NaN. */
function dateOf(inner, nowMs) {
  const numbers = inner.split(',').map((text) => arithmetic(text, nowMs));
  return numbers.length > 1 ? new Date(...numbers).getTime() : numbers[0];
}

/** The value of an expression of numbers, `Date.now()`, brackets and + - * /, or NaN. */
export function arithmetic(text, nowMs) {
  const tokens = text.match(/\d+(?:\.\d+)?(?:[eE]\d+)?|Date\.now\(\)|[-+*/()]|\S/g) ?? [];
  let i = 0;
  const binary = (operators, next) => () => {
    let value = next();
    while (operators[tokens[i]]) value = operators[tokens[i++]](value, next());
    return value;
  };
  const single = () => {
    const token = tokens[i++];
    if (token === '-') return -single();
    if (token === 'Date.now()') return nowMs;
    if (token !== '(') return /^\d/.test(token ?? '') ? Number(token) : Number.NaN;
    const value = sum();
    return tokens[i++] === ')' ? value : Number.NaN;
  };
  const product = binary({ '*': (a, b) => a * b, '/': (a, b) => a / b }, single);
  const sum = binary({ '+': (a, b) => a + b, '-': (a, b) => a - b }, product);
  const value = tokens.length > 100 ? Number.NaN : sum();
  return i === tokens.length ? value : Number.NaN;
}

function objectId(nowMs) {
  const seconds = Math.floor(nowMs / 1000) % 2 ** 32;
  return seconds.toString(16).padStart(8, '0') + hex(random(8));
}

function uuid() {
  const bytes = random(16);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** A request of texts and typed parts. */
export class Composed {
  constructor(items) {
    this.items = items;
  }

  get text() {
    return this.items.map((item) => (item instanceof Part ? item.text : item)).join('');
  }

  /** Where the byte `position` of the text was typed, or null if it is in none of the parts. */
  place(position) {
    const size = (text) => new TextEncoder().encode(text).length;
    let start = 0;
    for (const item of this.items) {
      const text = item instanceof Part ? item.text : item;
      const end = start + size(text);
      // What is missing at the end of a part is noticed behind it.
      if (item instanceof Part && position >= start && position <= end) {
        const before = new TextDecoder().decode(new TextEncoder().encode(text).slice(0, position - start));
        return item.place(before.length);
      }
      start = end;
    }
    return null;
  }
}

/** compose`{"find": ${text}, "filter": ${part}}`: parts keep their positions, everything else is text. */
export function compose(strings, ...values) {
  const items = strings.flatMap((text, i) => {
    const value = values[i];
    if (i >= values.length) return [text];
    return [text, ...(value instanceof Composed ? value.items : [value instanceof Part ? value : String(value)])];
  });
  return new Composed(items);
}

/**
 * The message of an error of the server about a request whose text begins with `before`, with the place where the cause
 * was typed instead of the position in the request.
 */
export function located(message, before, composed) {
  const found = /^(?:The request is not JSON: )?(.*) at position (\d+)$/s.exec(message);
  if (!found) return message;
  const offset = new TextEncoder().encode(before).length;
  const where = composed.place(Number(found[2]) - offset);
  return where ? `${where}: ${found[1]}` : found[1];
}
