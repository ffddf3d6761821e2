// Adds interrupt checks to built-in functions that have none while they work.
//
// The engine runs an interrupt check at every call and every backward jump of a script, but not inside
// functions implemented in C. Most of these finish soon because memory is limited. This file handles the
// others: `join` of an array of 4,000,000,000 holes takes no memory, but minutes. A large value is passed
// to the same function as a `Proxy` whose traps are JavaScript functions. Every access to an element is
// then a call, and therefore a point for an interrupt check.
//
// Functions that are neither endless nor short, such as a search in megabytes of text, count as work, and
// after some work there is a check (`ask` throws if the script must stop), see `pace.rs`. This file runs
// before any other code, and only its closures hold the original functions.
(function (ask) {
  "use strict";
  const { apply, construct, get, has, set, deleteProperty } = Reflect;
  const { isArray } = Array;
  const { defineProperty, getOwnPropertyDescriptor, getOwnPropertyNames, getPrototypeOf } = Object;
  const View = Proxy, Pattern = RegExp, object = Object, text = String;
  const spreadable = Symbol.isConcatSpreadable;
  const refuse = (what) => { throw new RangeError(what + " is too long"); };
  // A function in C processes this many elements within milliseconds ...
  const ITEMS_MAX = 1 << 20;
  // ... if comparing two of them takes no longer than the call itself.
  const SHORT = 1024;
  // The work of sorting one element.
  const SORTING = 32;
  // The time to search for a long text, or to compile a pattern, grows with the square of its length.
  const SEARCH_MAX = 2 ** 32, PATTERN_MAX = 1 << 16;

  // Elements between two interrupt checks: tens of microseconds.
  const WORK_MAX = 1 << 18;
  let work = 0;
  // Throws at every call once the script must stop: `work` is reset only after a successful check.
  const spend = (units) => {
    work += units;
    if (work > WORK_MAX) { ask(); work = 0; }
  };
  const lengthOfText = (value) =>
    typeof value === "string" ? value.length : isObject(value) ? SHORT : 0;

  const wrap = (holder, name, make) => {
    const property = getOwnPropertyDescriptor(holder, name);
    if (property === undefined) return;
    const original = property.value, made = make(original);
    defineProperty(made, "name", { value: original.name, configurable: true });
    defineProperty(made, "length", { value: original.length, configurable: true });
    property.value = made;
    defineProperty(holder, name, property);
  };
  const looking = {
    __proto__: null,
    get(target, name) { return get(target, name); },
    has(target, name) { return has(target, name); },
    set(target, name, value) { return set(target, name, value); },
    deleteProperty(target, name) { return deleteProperty(target, name); },
  };
  const isObject = (value) =>
    (typeof value === "object" && value !== null) || typeof value === "function";
  const array = Array.prototype, root = Object.prototype;
  // Not small with a long chain of prototypes, because every hole would be looked up in each of them.
  const small = (value) => isArray(value) && value.length <= ITEMS_MAX
    && getPrototypeOf(value) === array && getPrototypeOf(array) === root;
  const isLong = (value) => typeof value === "string" && value.length > SHORT;
  const view = (value) => {
    if (small(value)) {
      spend(value.length);
      return value;
    }
    if (isObject(value)) return new View(value, looking);
    return typeof value === "string" && value.length > ITEMS_MAX
      ? new View(object(value), looking) : value;
  };
  const over = (original, self, args) => {
    const seen = view(self), result = apply(original, seen, args);
    return result === seen ? self : result;
  };

  for (const name of ["fill", "join", "toLocaleString", "shift", "unshift", "reverse", "toReversed",
    "slice", "splice", "toSpliced", "with", "copyWithin"]) {
    wrap(array, name, (original) => function (...args) { return over(original, this, args); });
  }
  for (const name of ["indexOf", "lastIndexOf", "includes"]) {
    wrap(array, name, (original) => function (...args) {
      const long = isLong(args[0]) && isObject(this);
      return apply(original, long ? new View(this, looking) : view(this), args);
    });
  }
  const byText = (a, b) => {
    const left = text(a), right = text(b);
    return left < right ? -1 : left > right ? 1 : 0;
  };
  for (const name of ["sort", "toSorted"]) {
    wrap(array, name, (original) => function (...args) {
      if (args[0] === undefined && small(this)) {
        for (let at = 0; at < this.length; at++) if (isLong(this[at])) args[0] = byText;
        spend(this.length * SORTING);
      }
      return over(original, this, args);
    });
  }
  wrap(array, "concat", (original) => function (...args) {
    const spread = (value) => {
      if (!isObject(value)) return value;
      const says = value[spreadable];
      return (says === undefined ? isArray(value) : says) ? view(value) : value;
    };
    for (let at = 0; at < args.length; at++) args[at] = spread(args[at]);
    return apply(original, spread(this), args);
  });
  const flatten = (out, list, depth) => {
    for (let at = 0, end = list.length; at < end; at++) {
      if (!(at in list)) continue;
      const item = list[at];
      if (depth >= 1 && isArray(item)) flatten(out, item, depth - 1);
      else out[out.length] = item;
    }
    return out;
  };
  wrap(array, "flat", () => function (depth) {
    return flatten([], object(this), depth === undefined ? 1 : +depth);
  });
  wrap(array, "flatMap", () => function (callback, self) {
    if (typeof callback !== "function") throw new TypeError("not a function");
    const list = object(this), out = [];
    for (let at = 0, end = list.length; at < end; at++) {
      if (at in list) flatten(out, [apply(callback, self, [list[at], at, list])], 1);
    }
    return out;
  });

  // Without a comparison function, typed arrays are sorted in C.
  const views = getPrototypeOf(Uint8Array.prototype);
  const lengthOf = getOwnPropertyDescriptor(views, "length").get;
  for (const name of ["sort", "toSorted"]) {
    wrap(views, name, (original) => function (...args) {
      if (args[0] === undefined) {
        const length = apply(lengthOf, this, []);
        if (length > ITEMS_MAX) refuse("a typed array");
        spend(length * SORTING);
      }
      return apply(original, this, args);
    });
  }
  for (const name of ["fill", "indexOf", "lastIndexOf", "includes", "join", "reverse", "toReversed",
    "copyWithin", "set", "slice", "with"]) {
    wrap(views, name, (original) => function (...args) {
      spend(apply(lengthOf, this, []));
      return apply(original, this, args);
    });
  }

  const string = String.prototype;
  for (const name of ["indexOf", "lastIndexOf", "includes", "split", "replace", "replaceAll"]) {
    wrap(string, name, (original) => function (...args) {
      const [sought] = args;
      spend(lengthOfText(this));
      if (isLong(sought) && this !== null && this !== undefined) {
        const self = text(this);
        if (self.length * sought.length > SEARCH_MAX) refuse("the text to search for");
        return apply(original, self, args);
      }
      return apply(original, this, args);
    });
  }
  for (const name of ["startsWith", "endsWith", "localeCompare", "isWellFormed", "toWellFormed",
    "trim", "trimStart", "trimEnd"]) {
    wrap(string, name, (original) => function (...args) {
      spend(lengthOfText(this));
      return apply(original, this, args);
    });
  }
  for (const { prototype } of [Map, Set]) {
    for (const name of ["get", "has", "set", "add", "delete"]) {
      wrap(prototype, name, (original) => function (...args) {
        if (isLong(args[0])) spend(args[0].length);
        return apply(original, this, args);
      });
    }
  }
  for (const [holder, name] of [[globalThis, "parseInt"], [globalThis, "parseFloat"],
    [Date, "parse"], [JSON, "parse"]]) {
    wrap(holder, name, (original) => function (...args) {
      spend(lengthOfText(args[0]));
      return apply(original, this, args);
    });
  }
  for (const name of ["parseInt", "parseFloat"]) wrap(Number, name, () => globalThis[name]);
  wrap(String, "raw", (original) => function (template, ...args) {
    const given = template !== null && template !== undefined;
    return apply(original, this, [given ? { raw: view(template.raw) } : template, ...args]);
  });
  wrap(JSON, "stringify", (original) => function (value, replacer, gap) {
    if (isArray(replacer)) {
      if (replacer.length > ITEMS_MAX) refuse("the list of names");
      return original(value, replacer, gap);
    }
    return original(value, typeof replacer === "function" ? replacer : (_, item) => item, gap);
  });
  for (const name of ["match", "matchAll", "search"]) {
    wrap(string, name, (original) => function (...args) {
      if (typeof args[0] === "string" && args[0].length > PATTERN_MAX) refuse("a pattern");
      return apply(original, this, args);
    });
  }
  const compiled = (args) => {
    const source = args[0];
    if (isObject(source) && source instanceof Pattern) return args;
    args[0] = source === undefined ? source : text(source);
    if (source !== undefined && args[0].length > PATTERN_MAX) refuse("a pattern");
    return args;
  };
  const bounded = new View(Pattern, {
    __proto__: null,
    apply(target, self, args) { return apply(target, self, compiled(args)); },
    construct(target, args, made) {
      return construct(target, compiled(args), made === bounded ? target : made);
    },
  });
  const pattern = Pattern.prototype;
  defineProperty(pattern, "constructor", { value: bounded, writable: true, configurable: true });
  wrap(pattern, "compile", (original) => function (...args) {
    return apply(original, this, compiled(args));
  });
  wrap(globalThis, "RegExp", () => bounded);

  // Newer than ECMAScript 2023, and they process iterators in C.
  for (const name of ["union", "intersection", "difference", "symmetricDifference", "isSubsetOf",
    "isSupersetOf", "isDisjointFrom"]) {
    delete Set.prototype[name];
  }
  delete Math.sumPrecise;
  delete Array.fromAsync;
  const iterator = getPrototypeOf(getPrototypeOf([].values()));
  for (const name of getOwnPropertyNames(iterator)) delete iterator[name];
  delete globalThis.Iterator;
})
