// Extended JSON without loss: objects are Maps, which keep the order of fields such as "2" and "b" and names such as
// "__proto__"; numbers that JavaScript would change keep their text.

const DEPTH_MAX = 220;

/** A number whose text JavaScript would not reproduce, such as 1.0 or 9007199254740993. */
export class Num {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
  valueOf() {
    return Number(this.text);
  }
}

/** Reads JSON. Throws SyntaxError. A Map has `duplicates` if a name occurs twice: it cannot be written back. */
export function parse(text) {
  const at = { text, i: 0 };
  const value = read(at, 0);
  space(at);
  if (at.i !== text.length) throw new SyntaxError(`unexpected text at ${at.i}`);
  return value;
}

function space(at) {
  while (at.i < at.text.length && ' \n\r\t'.includes(at.text[at.i])) at.i++;
}

function accept(at, c) {
  space(at);
  if (at.text[at.i] !== c) return false;
  at.i++;
  return true;
}

function expect(at, c) {
  if (!accept(at, c)) throw new SyntaxError(`expected ${c} at ${at.i}`);
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const WORD = /true|false|null/y;

function match(at, pattern) {
  pattern.lastIndex = at.i;
  const found = pattern.exec(at.text);
  if (!found) return null;
  at.i += found[0].length;
  return found[0];
}

function read(at, depth) {
  if (depth > DEPTH_MAX) throw new SyntaxError('nested too deeply');
  if (accept(at, '{')) return readObject(at, depth);
  if (accept(at, '[')) return readArray(at, depth);
  const string = match(at, STRING);
  if (string !== null) return JSON.parse(string);
  const number = match(at, NUMBER);
  if (number !== null) return String(Number(number)) === number ? Number(number) : new Num(number);
  const word = match(at, WORD);
  if (word !== null) return { true: true, false: false, null: null }[word];
  throw new SyntaxError(`no value at ${at.i}`);
}

function readObject(at, depth) {
  const fields = new Map();
  if (accept(at, '}')) return fields;
  do {
    space(at);
    const name = match(at, STRING);
    if (name === null) throw new SyntaxError(`no name at ${at.i}`);
    expect(at, ':');
    const key = JSON.parse(name);
    if (fields.has(key)) fields.duplicates = true;
    fields.set(key, read(at, depth + 1));
  } while (accept(at, ','));
  expect(at, '}');
  return fields;
}

function readArray(at, depth) {
  const items = [];
  if (accept(at, ']')) return items;
  do items.push(read(at, depth + 1));
  while (accept(at, ','));
  expect(at, ']');
  return items;
}

/** Writes JSON; with `indent` one field a line, and short objects on one line. */
export function text(value, indent = 0, margin = '') {
  if (value instanceof Num) return value.text;
  if (!(value instanceof Map) && !Array.isArray(value)) return JSON.stringify(value) ?? 'null';
  const isMap = value instanceof Map;
  const [open, close] = isMap ? '{}' : '[]';
  const inner = margin + ' '.repeat(indent);
  const parts = isMap
    ? [...value].map(([name, item]) => `${JSON.stringify(name)}: ${text(item, indent, inner)}`)
    : value.map((item) => text(item, indent, inner));
  const line = open + parts.join(', ') + close;
  if (!indent || !parts.length || (line.length <= 80 && !line.includes('\n'))) return line;
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}\n${margin}${close}`;
}

/** Returns the value under names, or undefined. */
export function dig(value, ...names) {
  let at = value;
  for (const name of names) {
    if (at instanceof Map) at = at.get(name);
    else if (Array.isArray(at)) at = at[name];
    else return undefined;
  }
  return at;
}

/** Returns true if a Map contains duplicate names at any depth. */
export function hasDuplicates(value) {
  if (value instanceof Map) return Boolean(value.duplicates) || [...value.values()].some(hasDuplicates);
  return Array.isArray(value) && value.some(hasDuplicates);
}

/**
 * Makes canonical extended JSON readable without losing types: {"$numberInt": "5"} becomes 5, {"$numberDouble": "5.0"}
 * becomes 5.0. Other types stay as they are.
 */
export function soften(value) {
  if (Array.isArray(value)) return value.map(soften);
  if (!(value instanceof Map)) return value;
  if (value.size === 1) {
    const [[name, inner]] = value;
    if (name === '$numberInt' && /^-?\d+$/.test(inner)) return Number(inner);
    if (name === '$numberDouble' && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(inner)) {
      return new Num(/[.eE]/.test(inner) ? inner : `${inner}.0`);
    }
    if (name === '$date' && inner instanceof Map) return softenDate(value, inner);
  }
  const out = new Map([...value].map(([name, item]) => [name, soften(item)]));
  if (value.duplicates) out.duplicates = true;
  return out;
}

function softenDate(value, inner) {
  const ms = Number(inner.get('$numberLong'));
  // Years with four digits: other dates have no text in this notation.
  return ms >= 0 && ms < 253402300800000 ? new Map([['$date', new Date(ms).toISOString()]]) : value;
}

/**
 * Returns the text of one object (`open` is "{") or array ("[") as it was typed, or throws SyntaxError if brackets
 * or quotes do not close: the text becomes a part of a request. An empty text is `{}` or `[]`.
 */
export function typed(source, open = '{') {
  const all = source.trim();
  if (!all) return open === '{' ? '{}' : '[]';
  if (all[0] !== open) throw new SyntaxError(`The text must begin with ${open}`);
  const end = closing(all);
  if (end < 0) throw new SyntaxError('A bracket or quote is not closed');
  const rest = all.slice(end + 1).trim();
  if (rest && rest !== ';') throw new SyntaxError(`Unexpected text after the end: ${rest.slice(0, 20)}`);
  return all.slice(0, end + 1);
}

/** The position of the bracket that closes the first one, or -1. */
function closing(all) {
  const stack = [];
  const pairs = { '{': '}', '[': ']', '(': ')' };
  let before = '';
  for (let i = 0; i < all.length; i++) {
    const c = all[i];
    if (c === '"' || c === "'") {
      i = skipQuoted(all, i, c);
      if (i < 0) return -1;
    } else if (c === '/' && ':,[('.includes(before)) {
      i = skipRegex(all, i);
      if (i < 0) return -1;
    } else if (pairs[c]) stack.push(pairs[c]);
    else if ('}])'.includes(c)) {
      if (stack.pop() !== c) return -1;
      if (!stack.length) return i;
    }
    if (!' \n\r\t'.includes(c)) before = c;
  }
  return -1;
}

/** The position of the quote that ends the string at `start`, or -1. */
export function skipQuoted(all, start, quote) {
  for (let i = start + 1; i < all.length; i++) {
    if (all[i] === '\\') i++;
    else if (all[i] === quote) return i;
  }
  return -1;
}

/** The position of the slash that ends the regular expression at `start`, or -1. */
export function skipRegex(all, start) {
  let inClass = false;
  for (let i = start + 1; i < all.length; i++) {
    if (all[i] === '\\') i++;
    else if (all[i] === '[') inClass = true;
    else if (all[i] === ']') inClass = false;
    else if (all[i] === '/' && !inClass) return i;
  }
  return -1;
}
