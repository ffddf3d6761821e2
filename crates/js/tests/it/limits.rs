//! Limits of time, memory and depth that no script can exceed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagi_bson::{Value, ValueBuf};
use nagi_budget::{Budget, Pool};
use nagi_error::{Code, err};
use nagi_lang::script::Function;

use crate::{Bench, doc, shown};

/// A bench whose requests are killed at the third interrupt check.
fn killed() -> Bench {
    let looks = AtomicU64::new(0);
    let mut bench = Bench::new(64 << 20);
    bench.interrupt = Arc::new(move || match looks.fetch_add(1, Ordering::Relaxed) {
        0..2 => Ok(()),
        _ => Err(err!(Code::INTERRUPTED, "operation was interrupted")),
    });
    bench
}

#[test]
fn loops_end_when_the_request_does() {
    for text in [
        "function() { for (;;); }",
        "function() { while (true) { try { for (;;); } catch (e) { } } }",
        "function() { try { for (;;); } finally { return 1; } }",
        "function() { sleep(1000000) }",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "({get a() { for (;;); }})",
    ] {
        assert_eq!(shown(killed().call(text, &[])), "11601 operation was interrupted", "{text}");
    }
}

/// Built-in functions on values that are huge without taking memory, or slow for another reason. Each must run
/// interrupt checks; otherwise many of them would run for hours, and the test with them.
const HUGE: &[&str] = &[
    "new Array(4e9).indexOf(1)",
    "new Array(4e9).lastIndexOf(1)",
    "new Array(4e9).includes(1)",
    "new Array(4e9).find(x => false)",
    "new Array(4e9).forEach(x => x)",
    "new Array(4e9).map(x => x)",
    "new Array(4e9).every(isNaN)",
    "new Array(4e9).reduce((a, b) => a)",
    "new Array(4e9).join()",
    "new Array(4e9).toString()",
    "new Array(4e9).toLocaleString()",
    "new Array(4e9).concat([1])",
    "[].concat(new Array(4e9))",
    "new Array(4e9).reverse()",
    "new Array(4e9).slice(1)",
    "new Array(4e9).splice(1, 4e9 - 2)",
    "new Array(4e9).sort()",
    "new Array(4e9).copyWithin(0, 1)",
    "new Array(4e9).shift()",
    "new Array(4e9).unshift(1)",
    "new Array(4e9).fill(0)",
    "new Array(4e9).flat()",
    "[new Array(4e9), new Array(4e9)].flat(2)",
    "[1].flatMap(x => new Array(4e9))",
    "Array.prototype.indexOf.call({length: 1e15}, 1)",
    "Array.prototype.join.call({length: 1e15}, '')",
    "Array.prototype.reverse.call({length: 1e15})",
    "Array.prototype.sort.call({length: 1e15})",
    "Array.prototype.slice.call({length: 4e9})",
    "Array.prototype.fill.call(new Proxy({length: 1e15}, {set: () => true}), 0)",
    "Array.prototype.fill.call(Object.defineProperty(new Uint8Array(1), 'length', {value: 1e15}))",
    "Array.prototype.join.call(new Proxy([], {get: (t, name) => name === 'length' ? 1e15 : ''}))",
    "String.raw({raw: new Proxy([], {get: (t, name) => name === 'length' ? 1e15 : ''})})",
    "new Set(new Array(4e9))",
    "JSON.stringify(new Array(4e9))",
    "let a = []; for (let i = 0; i < 40; i++) a = [a, a]; return JSON.stringify(a)",
    "let a = []; for (let i = 0; i < 40; i++) a = [a, a]; return a.flat(Infinity)",
    "let a = []; for (let i = 0; i < 40; i++) a = [a, a]; return String(a)",
    "let a = {}; for (let i = 0; i < 40; i++) a = {a, b: a}; return tojson(a)",
    "let p = []; for (let i = 0; i < 1e5; i++) p = Object.create(p); let a = new Array(1e6); \
     Object.setPrototypeOf(a, p); return Array.prototype.join.call(a)",
    "let s = 'a'.repeat(2e5); let a = new Array(1e6).fill(s + 'b'); return a.indexOf(s + 'c')",
    "let s = 'a'.repeat(1e7); for (;;) s.includes('b')",
    "let x = 3n ** 300000n; for (;;) x * x",
    "let a = new Uint8Array(1e7); for (;;) a.fill(1)",
    "let a = new Uint8Array(1e6); for (;;) try { a.sort() } catch (e) { }",
    "let a = new Array(1e6).fill('a'); for (;;) try { a.sort() } catch (e) { }",
    "let a = new Array(1e6).fill(0); for (;;) a.indexOf(1)",
    "let s = 'a'.repeat(1e7), t = s + 'b', u = s + 'c'; for (;;) t.startsWith(u)",
    "let s = 'a'.repeat(1e7), t = s + 'b'; for (;;) s.localeCompare(t)",
    "let s = 'a'.repeat(1e7), m = new Map([[s, 1]]); for (;;) try { m.get(s + 'b') } catch (e) { }",
    "let s = ' '.repeat(1e7) + '1'; for (;;) parseInt(s)",
    "let s = ' '.repeat(1e7) + '1'; for (;;) JSON.parse(s)",
    "for (;;) try { 'x'.repeat(1e7) } catch (e) { }",
    "'x'.repeat(1e6).search(/(?=x*y)/)",
    "Object.fromEntries({[Symbol.iterator]: () => ({next: () => ({value: [1, 1]})})})",
];

/// A bench whose requests are killed after 50 ms.
fn killed_later() -> Bench {
    let mut bench = Bench::new(256 << 20);
    let started = std::time::Instant::now();
    bench.interrupt = Arc::new(move || match started.elapsed().as_millis() {
        0..50 => Ok(()),
        _ => Err(err!(Code::INTERRUPTED, "operation was interrupted")),
    });
    bench
}

#[test]
fn built_in_functions_ask() {
    for text in HUGE {
        assert_eq!(
            shown(killed_later().call(text, &[])),
            "11601 operation was interrupted",
            "{text}"
        );
    }
}

#[test]
fn bounds_cannot_be_undone() {
    for text in [
        // The closures hold the originals of the functions that they use.
        "Reflect.apply = Reflect.get = Reflect.has = () => 0; Array.isArray = () => true; \
         Proxy = function() {}; return new Array(4e9).join()",
        "delete Array.prototype.join; let a = new Array(4e9); return a.reverse()",
        "Object.getOwnPropertyDescriptor = () => ({}); new Array(4e9).slice.constructor; \
         return [].slice.call(new Array(4e9))",
    ] {
        let got = shown(killed_later().call(&format!("{text};"), &[]));
        assert_eq!(got, "11601 operation was interrupted", "{text}");
    }
    for (text, refused) in [
        ("RegExp('a|'.repeat(1e6))", "a pattern"),
        ("new (/a/.constructor)('a|'.repeat(1e6))", "a pattern"),
        ("'a'.match('a|'.repeat(1e6))", "a pattern"),
        ("'a'.repeat(1e7).indexOf('a'.repeat(5e6) + 'b')", "the text to search for"),
        ("new Float64Array(4e6).sort()", "a typed array"),
        ("JSON.stringify([1], new Array(4e9))", "the list of names"),
    ] {
        let got = shown(Bench::new(256 << 20).call(text, &[]));
        assert!(
            got.starts_with(&format!("139 RangeError: {refused} is too long")),
            "{text}: {got}"
        );
    }
}

#[test]
fn bounded_functions_do_what_they_did() {
    for (text, expected) in [
        ("[1, [2, [3, [4]]]].flat()", "[ 1.0, 2.0, [ 3.0, [ 4.0 ] ] ]"),
        ("[1, [2, [3, [4]]]].flat(Infinity)", "[ 1.0, 2.0, 3.0, 4.0 ]"),
        ("[1, 2].flatMap(x => [x, [x]])", "[ 1.0, [ 1.0 ], 2.0, [ 2.0 ] ]"),
        ("[3, 1, 10].sort()", "[ 1.0, 10.0, 3.0 ]"),
        ("[3, 1, 10].sort((a, b) => b - a)", "[ 10.0, 3.0, 1.0 ]"),
        (
            "['b'.repeat(2000), 'a', undefined].sort().map(x => x && x[0])",
            "[ \"a\", \"b\", undefined ]",
        ),
        ("(a => a.sort() === a && a.reverse() === a && a.fill(0) === a)([1, 2])", "true"),
        ("(a => Array.prototype.fill.call(a, 7) === a && a[1])({length: 2})", "7.0"),
        (
            "(function() { return Array.prototype.slice.call(arguments, 1) })(1, 2, 3)",
            "[ 2.0, 3.0 ]",
        ),
        ("(function() { return [].shift.call(arguments) })(1, 2)", "1.0"),
        ("[].concat([1], 2, {a: 3}, [[4]])", "[ 1.0, 2.0, { a: 3.0 }, [ 4.0 ] ]"),
        ("[].join.call('abc', '-')", "\"a-b-c\""),
        ("JSON.stringify({a: [1, , null], b: undefined}, null, 1).length", "34.0"),
        ("JSON.stringify({a: 1, b: 2}, ['b'])", "\"{\"b\":2}\""),
        ("String.raw`a${1}\\n`", "\"a1\\n\""),
        ("/a/ instanceof RegExp && RegExp('a', 'g').flags + new RegExp(/b/).source", "\"gb\""),
        (
            "class P extends RegExp {}; return new P('x').test('x') && new P('x') instanceof P",
            "true",
        ),
        ("'a-b-c'.replace(new RegExp('-', 'g'), '+')", "\"a+b+c\""),
        ("[].join.name + [].join.length + [].flat.name", "\"join1flat\""),
    ] {
        assert_eq!(crate::eval(text, &[]), expected, "{text}");
    }
}

#[test]
fn results_end() {
    for text in ["new Array(4e9)", "let a = []; for (let i = 0; i < 40; i++) a = [a, a]; return a"]
    {
        let got = shown(Bench::new(256 << 20).call(text, &[]));
        assert!(got.starts_with("17260 "), "{text}: {got}");
    }
}

#[test]
fn memory_ends() {
    let bench = Bench::new(16 << 20);
    for text in [
        "function() { let a = []; for (;;) a.push({x: 1}); }",
        "function() { let a = 'x'; for (;;) a += a; }",
        "new Array(5000000).fill(0)",
        "new Uint8Array(1 << 30)",
        "'x'.repeat(1 << 28)",
    ] {
        let got = shown(bench.call(text, &[]));
        assert!(got.starts_with("139 "), "{text}: {got}");
    }
    assert_eq!(shown(bench.call("1", &[])), "1.0");
    assert_eq!(bench.engines.running(), 0);
}

#[test]
fn recursion_ends() {
    let bench = Bench::new(64 << 20);
    let got = shown(bench.call("function f() { return f(); }", &[]));
    assert!(got.starts_with("139 RangeError: Maximum call stack size exceeded"), "{got}");
    let deep = "JSON.parse('['.repeat(100000))";
    assert!(shown(bench.call(deep, &[])).starts_with("139 "));
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(shown(bench.call(&deep, &[])).starts_with("139 "));
}

#[test]
fn emits_are_taken_as_they_are_then() {
    let bench = Bench::new(0);
    let row = doc("{_id: 1, a: 2}");
    let mut seen = Vec::new();
    let map = Function::new(
        "function() { let o = {n: 1}; emit(this.a, o); o.n = 2; emit(undefined, o); emit(1, this); }",
    );
    let interrupt = || bench.interrupt.clone();
    bench
        .engines
        .map(1, &interrupt, &nagi_js::nothing_stored, &map, row.as_doc(), &mut |key: Value<'_>,
                                                                                value: Value<
            '_,
        >| {
            seen.push(format!("{key} {value}"));
            Ok(())
        })
        .expect("emits");
    nagi_js::release();
    assert_eq!(seen, ["2.0 { n: 1.0 }", "null { n: 2.0 }", "1.0 { _id: 1, a: 2 }"]);
}

#[test]
fn more_engines_than_there_may_be_wait() {
    let bench = Bench::new(0);
    let interrupt = || bench.interrupt.clone();
    let one = Function::new("1");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let result: nagi_error::Result<ValueBuf> =
                    bench.engines.call(7, &interrupt, &one, Value::Missing, &[]);
                nagi_js::release();
                assert_eq!(shown(result), "1.0");
            });
        }
    });
    assert_eq!(bench.engines.running(), 0);
}

#[test]
fn without_memory_for_an_engine_the_call_fails_and_not_the_process() {
    let budget = Budget::new(64 << 20);
    let bench = Bench::within(&budget, 0);
    let limit = budget.limit(Pool::Scripts);
    // The remaining capacity takes all sizes at which the creation of an engine could be interrupted.
    for rest in (0..40).map(|n| n * (100 << 10)) {
        let others = budget.try_charge(Pool::Scripts, limit - rest).expect("it is free");
        match bench.call("function() { return 1 }", &[]) {
            Ok(value) => assert_eq!(shown(Ok(value)), "1.0"),
            Err(error) => assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{rest}: {error}"),
        }
        drop(others);
    }
    assert_eq!(shown(bench.call("function() { return 1 }", &[])), "1.0");
    assert_eq!(budget.demand(), 0);
}
