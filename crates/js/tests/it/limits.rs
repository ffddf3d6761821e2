//! Time, memory, depth: what a script cannot take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagi_bson::{Value, ValueBuf};
use nagi_error::{Code, err};
use nagi_lang::script::Function;

use crate::{Bench, doc, shown};

/// A bench whose requests are killed at the third look.
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
        .map(1, &interrupt, &map, row.as_doc(), &mut |key: Value<'_>, value: Value<'_>| {
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
