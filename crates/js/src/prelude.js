// The environment of scripts beside the language itself: BSON's types as in the shell, and helpers.
//
// Runs once in every new context, as a function with the argument `native`. It returns what the converters
// use: two symbols (the kind and the content of a BSON value) and a factory. `kinds.rs` has the kinds.
(function (native) {
  "use strict";
  const kind = Symbol("kind"), content = Symbol("content");
  const hidden = (object, name, value) =>
    Object.defineProperty(object, name, { value, writable: true, configurable: true });
  const methods = (type, all) => {
    for (const name of Object.keys(all)) hidden(type.prototype, name, all[name]);
  };
  const getter = (type, name, get) =>
    Object.defineProperty(type.prototype, name, { get, configurable: true });
  const fail = (text) => { throw new Error(text); };
  // A type that may be called with or without `new`. `make` initializes a new object from the arguments.
  const type = (name, number, make) => {
    const made = {
      [name]: function (...args) {
        const self = new.target && this instanceof made ? this : Object.create(made.prototype);
        make(self, args);
        return self;
      },
    }[name];
    hidden(made.prototype, kind, number);
    hidden(globalThis, name, made);
    return made;
  };
  const hold = (self, value) => Object.defineProperty(self, content, { value });
  const raw = (type, value) => hold(Object.create(type.prototype), value);
  const text = (value) => "\"" + String(value) + "\"";

  const long = (value) => {
    if (value === undefined) return 0n;
    if (typeof value === "bigint") return BigInt.asIntN(64, value);
    if (typeof value === "number") {
      if (Number.isNaN(value)) return 0n;
      if (value >= 9223372036854775807) return 9223372036854775807n;
      if (value <= -9223372036854775808) return -9223372036854775808n;
      return BigInt(Math.trunc(value));
    }
    if (value !== null && typeof value === "object" && value[kind] === 1) return value[content];
    if (typeof value === "string") {
      if (!/^\s*[-+]?\d+\s*$/.test(value)) fail("could not convert string to long long");
      const parsed = BigInt(value.trim().replace(/^\+/, ""));
      if (parsed !== BigInt.asIntN(64, parsed)) fail("could not convert string to long long");
      return parsed;
    }
    return BigInt(Math.trunc(Number(value)) || 0);
  };
  const NumberLong = type("NumberLong", 1, (self, args) => {
    if (args.length === 3) {
      const [, top, bottom] = args;
      return hold(self, BigInt.asIntN(64, (BigInt(top) << 32n) | BigInt(bottom)));
    }
    if (args.length > 1) fail("NumberLong needs 0, 1 or 3 arguments");
    return hold(self, long(args[0]));
  });
  methods(NumberLong, {
    toNumber() { return Number(this[content]); },
    valueOf() { return Number(this[content]); },
    toString() {
      const value = this[content];
      const inside = value > 2147483647n || value < -2147483648n ? text(value) : String(value);
      return "NumberLong(" + inside + ")";
    },
    toJSON() { return { $numberLong: String(this[content]) }; },
    compare(other) {
      const [a, b] = [this[content], long(other)];
      return a < b ? -1 : a > b ? 1 : 0;
    },
  });
  getter(NumberLong, "floatApprox", function () { return Number(this[content]); });
  getter(NumberLong, "exactValueString", function () { return String(this[content]); });
  getter(NumberLong, "top", function () { return Number(this[content] >> 32n); });
  getter(NumberLong, "bottom", function () { return Number(this[content] & 0xffffffffn); });

  const NumberInt = type("NumberInt", 2, (self, args) => {
    if (args.length > 1) fail("NumberInt takes 0 or 1 arguments");
    const [value] = args;
    if (typeof value === "string" && !/^\s*[-+]?\d+\s*$/.test(value)) {
      fail("could not convert string to integer");
    }
    return hold(self, value === undefined ? 0 : Number(value) | 0);
  });
  methods(NumberInt, {
    toNumber() { return this[content]; },
    valueOf() { return this[content]; },
    toString() { return "NumberInt(" + this[content] + ")"; },
    toJSON() { return this[content]; },
  });

  const NumberDecimal = type("NumberDecimal", 3, (self, args) => {
    if (args.length > 1) fail("NumberDecimal takes 0 or 1 arguments");
    const [value] = args;
    const shown = value !== null && typeof value === "object" && value[kind] !== undefined
      ? String(value[content]) : String(value === undefined ? 0 : value);
    return hold(self, native.decimal(shown));
  });
  methods(NumberDecimal, {
    toString() { return "NumberDecimal(" + text(this[content]) + ")"; },
    toJSON() { return { $numberDecimal: this[content] }; },
  });

  const ObjectId = type("ObjectId", 4, (self, args) => {
    if (args.length > 1) fail("ObjectId takes 0 or 1 arguments");
    const [value] = args;
    if (value === undefined) return hold(self, native.objectId());
    if (value !== null && typeof value === "object" && value[kind] === 4) {
      return hold(self, value[content]);
    }
    if (typeof value !== "string") fail("ObjectId can only be constructed from a string");
    if (!/^[0-9a-fA-F]{24}$/.test(value)) {
      fail(value.length === 24 ? "invalid object id: not hex" : "invalid object id: length");
    }
    return hold(self, value.toLowerCase());
  });
  methods(ObjectId, {
    toString() { return "ObjectId(" + text(this[content]) + ")"; },
    valueOf() { return this[content]; },
    toHexString() { return this[content]; },
    toJSON() { return { $oid: this[content] }; },
    getTimestamp() { return new Date(parseInt(this[content].slice(0, 8), 16) * 1000); },
    equals(other) {
      const id = other !== null && typeof other === "object" ? other[content] : other;
      return this[content] === id;
    },
  });
  getter(ObjectId, "str", function () { return this[content]; });
  hidden(ObjectId, "fromDate", (date) => {
    if (!(date instanceof Date)) fail("Cannot create ObjectId from argument that is not a Date");
    const seconds = Math.floor(date.getTime() / 1000) >>> 0;
    return new ObjectId(seconds.toString(16).padStart(8, "0") + "0000000000000000");
  });
  hidden(globalThis, "ObjectID", ObjectId);

  const unsigned = (value) => {
    const n = value !== null && typeof value === "object" ? Number(value.valueOf()) : Number(value);
    if (!(n >= 0 && n <= 4294967295)) {
      fail("Timestamp time and increment must be non-negative and not greater than 4294967295");
    }
    return Math.trunc(n);
  };
  const Timestamp = type("Timestamp", 5, (self, args) => {
    if (args.length !== 0 && args.length !== 2) fail("Timestamp needs 0 or 2 arguments");
    self.t = args.length ? unsigned(args[0]) : 0;
    self.i = args.length ? unsigned(args[1]) : 0;
  });
  methods(Timestamp, {
    getTime() { return this.t; },
    getInc() { return this.i; },
    toString() { return "Timestamp(" + this.t + ", " + this.i + ")"; },
    toJSON() { return { $timestamp: { t: this.t, i: this.i } }; },
  });

  const BinData = type("BinData", 6, (self, args) => {
    if (args.length !== 2) fail("BinData takes 2 arguments");
    const [subtype, data] = args;
    if (typeof subtype !== "number" || !(subtype >= 0 && subtype <= 255)) {
      fail("BinData subtype must be between 0 and 255");
    }
    if (typeof data !== "string") fail("BinData data must be a String");
    return hold(self, [subtype | 0, native.toHex(data)]);
  });
  const hex = (subtype, data) => {
    if (typeof data !== "string" || !/^([0-9a-fA-F]{2})*$/.test(data)) fail("invalid hex string");
    return raw(BinData, [subtype, data.toLowerCase()]);
  };
  const dashed = (d) => [d.slice(0, 8), d.slice(8, 12), d.slice(12, 16), d.slice(16, 20),
    d.slice(20)].join("-");
  methods(BinData, {
    hex() { return this[content][1]; },
    base64() { return native.toBase64(this[content][1]); },
    length() { return this[content][1].length / 2; },
    subtype() { return this[content][0]; },
    toString() {
      const [subtype, data] = this[content];
      if (subtype === 4 && data.length === 32) return "UUID(" + text(dashed(data)) + ")";
      return "BinData(" + subtype + "," + text(native.toBase64(data)) + ")";
    },
    toJSON() {
      const [subtype, data] = this[content];
      return { $binary: native.toBase64(data), $type: subtype.toString(16).padStart(2, "0") };
    },
  });
  getter(BinData, "type", function () { return this[content][0]; });
  getter(BinData, "len", function () { return this[content][1].length / 2; });
  hidden(globalThis, "HexData", (subtype, data) => hex(subtype & 255, data));
  hidden(globalThis, "MD5", (data) => hex(5, data));
  hidden(globalThis, "UUID", (data) => {
    if (data === undefined) data = native.uuid();
    if (typeof data !== "string" || !/^[0-9a-fA-F]{32}$/.test(data.replaceAll("-", ""))) {
      fail("UUID string must have 32 characters");
    }
    return hex(4, data.replaceAll("-", ""));
  });

  const end = (name, number, sign) => {
    const made = type(name, number, () => undefined);
    methods(made, {
      toString() { return name; },
      tojson() { return "{ \"$" + name[0].toLowerCase() + name.slice(1) + "\" : 1 }"; },
      toJSON() { return { ["$" + name[0].toLowerCase() + name.slice(1)]: 1 }; },
      compare(other) { return other instanceof made ? 0 : sign; },
    });
    // The name itself is the value, as in the shell.
    const only = Object.create(made.prototype);
    Object.setPrototypeOf(made, made.prototype);
    hidden(made, kind, number);
    return only;
  };
  const least = end("MinKey", 7, -1), greatest = end("MaxKey", 8, 1);

  const DBPointer = type("DBPointer", 9, (self, args) => {
    if (args.length !== 2) fail("DBPointer needs 2 arguments");
    if (typeof args[0] !== "string") fail("DBPointer 1st parameter must be a string");
    if (!(args[1] instanceof ObjectId)) fail("DBPointer 2nd parameter must be an ObjectId");
    [self.ns, self.id] = args;
  });
  const Code = type("Code", 10, (self, args) => {
    if (args.length > 2) fail("Code needs 0, 1 or 2 arguments");
    self.code = args.length ? String(args[0]) : "";
    if (args.length === 2) self.scope = args[1];
  });
  // A document like any other, with its fields in the stored order.
  hidden(globalThis, "DBRef", function DBRef(collection, id, db) {
    const self = new.target ? this : Object.create(DBRef.prototype);
    if (arguments.length < 2 || arguments.length > 3) fail("DBRef needs 2 or 3 arguments");
    self.$ref = String(collection);
    self.$id = id;
    if (db !== undefined) self.$db = String(db);
    return self;
  });

  hidden(globalThis, "ISODate", (shown) => {
    if (shown === undefined) return new Date();
    const parts = /^(\d{4})-?(\d\d)-?(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d(?:\.\d+)?))?)?(Z|[-+]\d\d:?(?:\d\d)?)?)?$/
      .exec(String(shown));
    if (!parts) throw new Error("invalid ISO date: " + shown);
    const [, year, month, day, hour, minute, second, zone] = parts;
    let time = Date.UTC(year, month - 1, day, hour || 0, minute || 0);
    time += Math.round(parseFloat(second || "0") * 1000);
    if (zone && zone !== "Z") {
      const [hours, minutes] = [zone.slice(1, 3), zone.slice(3).replace(":", "") || "0"];
      const shift = (parseInt(hours, 10) * 60 + parseInt(minutes, 10)) * 60000;
      time += zone[0] === "+" ? -shift : shift;
    }
    if (Number.isNaN(time)) throw new Error("invalid ISO date: " + shown);
    return new Date(time);
  });
  const date = (value) => Number.isNaN(value.getTime()) ? "ISODate(\"NaN\")"
    : "ISODate(" + text(value.toISOString().replace(/\.000Z$/, "Z")) + ")";

  const named = ["NumberLong", "NumberInt", "NumberDecimal", "ObjectId", "Timestamp", "BinData"];
  const DEPTH_MAX = 150;
  const shown = (value, indent, oneLine, depth) => {
    if (value === null) return "null";
    if (value === undefined) return "undefined";
    switch (typeof value) {
      case "string": return JSON.stringify(value);
      case "number": case "boolean": return String(value);
      case "bigint": case "symbol": return String(value);
      case "function":
        return value === globalThis.MinKey || value === globalThis.MaxKey
          ? value.tojson() : value.toString();
    }
    if (depth > DEPTH_MAX) fail("tojson: the value is nested too deeply");
    if (value instanceof Date) return date(value);
    if (value instanceof RegExp) return String(value);
    if (value instanceof Error) return String(value);
    const number = value[kind];
    if (number !== undefined && number <= named.length) return value.toString();
    if (typeof value.tojson === "function") return value.tojson(indent, oneLine);
    const [gap, step] = oneLine ? [" ", ""] : ["\n", "\t"];
    const inner = oneLine ? "" : indent + step;
    const list = Array.isArray(value)
      ? value.map((item) => shown(item, inner, oneLine, depth + 1))
      : Object.keys(value).map((name) =>
        JSON.stringify(name) + " : " + shown(value[name], inner, oneLine, depth + 1));
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    if (list.length === 0) return Array.isArray(value) ? "[ ]" : "{ }";
    const lines = list.map((item) => inner + item).join("," + gap);
    return open + gap + lines + gap + (oneLine ? "" : indent) + close;
  };
  const doassert = (message) => {
    throw new Error(typeof message === "string" ? message : shown(message, "", true, 0));
  };
  const assert = (holds, message) => {
    if (!holds) doassert(message === undefined ? "assert failed" : "assert failed : " + message);
  };

  const helpers = {
    tojson(value, indent, oneLine) { return shown(value, indent || "", oneLine === true, 0); },
    tojsononeline(value) { return shown(value, "", true, 0); },
    tojsonObject(value, indent, oneLine) { return shown(value, indent || "", oneLine === true, 0); },
    print() {},
    printjson() {},
    printjsononeline() {},
    gc() {},
    assert,
    doassert,
    sleep(ms) { native.sleep(Number(ms) || 0); },
    version() { return native.version(); },
    hex_md5(value) { return native.md5(String(value)); },
    isNumber(value) { return typeof value === "number"; },
    isString(value) { return typeof value === "string"; },
    isObject(value) { return typeof value === "object"; },
    emit(key, value) {
      if (arguments.length !== 2) fail("emit takes 2 args");
      native.emit(key, value);
    },
  };
  for (const name of Object.keys(helpers)) hidden(globalThis, name, helpers[name]);
  hidden(globalThis, "args", undefined);

  const numbers = (list) => list.length === 0 ? null : list.map(Number);
  hidden(Array, "sum", (list) => {
    if (list.length === 0) return null;
    let sum = list[0];
    for (let at = 1; at < list.length; at++) sum += list[at];
    return sum;
  });
  hidden(Array, "avg", (list) => list.length === 0 ? null : Array.sum(list) / list.length);
  hidden(Array, "stdDev", (list) => {
    const all = numbers(list);
    if (all === null) return null;
    const mean = Array.sum(all) / all.length;
    return Math.sqrt(Array.sum(all.map((n) => (n - mean) * (n - mean))) / all.length);
  });
  const equal = (a, b) => {
    if (a === b) return true;
    if (a === null || b === null || a === undefined || b === undefined) return false;
    if (typeof a !== typeof b && typeof a !== "object" && typeof b !== "object") return a == b;
    return shown(a, "", true, 0) === shown(b, "", true, 0);
  };
  hidden(globalThis, "friendlyEqual", equal);
  hidden(Array, "contains", (list, value) => list.some((item) => item === value));
  hidden(Array, "unique", (list) => {
    const out = [];
    for (const item of list) if (!Array.contains(out, item)) out.push(item);
    return out;
  });
  hidden(Array, "tojson", (list, indent, oneLine) => shown(list, indent || "", oneLine === true, 0));
  hidden(Object, "extend", (to, from, deep) => {
    for (const name in from) {
      const value = from[name];
      const copied = deep && value !== null && typeof value === "object";
      to[name] = copied ? Object.extend(Array.isArray(value) ? [] : {}, value, true) : value;
    }
    return to;
  });
  hidden(Object, "merge", (to, from, deep) => Object.extend(Object.extend({}, to, deep), from, deep));
  hidden(Object, "keySet", (object) => Object.keys(object));
  const trims = { ltrim: "trimStart", rtrim: "trimEnd" };
  for (const name of Object.keys(trims)) {
    hidden(String.prototype, name, function () { return this[trims[name]](); });
  }
  hidden(Date.prototype, "tojson", function () { return date(this); });
  hidden(RegExp.prototype, "tojson", function () { return String(this); });

  // Dates and patterns are JavaScript's own types, so only their kind is added.
  hidden(Date.prototype, kind, 11);
  getter(Date, content, function () { return this.getTime(); });
  hidden(RegExp.prototype, kind, 12);
  getter(RegExp, content, function () { return [this.source, this.flags]; });
  const pattern = (source, flags) => {
    try {
      return new RegExp(source, flags);
    } catch {
      // PCRE accepts more patterns than JavaScript: such a pattern can be returned, but not used.
      return hold(Object.create(RegExp.prototype), [source, flags]);
    }
  };

  const made = [NumberLong, NumberInt, NumberDecimal, ObjectId, null, BinData];
  const make = (number, a, b) => {
    switch (number) {
      case 5: return new Timestamp(a, b);
      case 6: return raw(BinData, [a, b]);
      case 7: return least;
      case 8: return greatest;
      case 9: return new DBPointer(a, raw(ObjectId, b));
      case 10: return b === undefined ? new Code(a) : new Code(a, b);
      case 11: return new Date(a);
      case 12: return pattern(a, b);
      default: return raw(made[number - 1], a);
    }
  };
  return { kind, content, make };
})
