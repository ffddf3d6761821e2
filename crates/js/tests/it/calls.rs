//! The forms of functions, the values that they see, and the errors when they fail.

use crate::{Bench, doc, eval};

#[test]
fn functions_bodies_and_expressions() {
    let rows = [
        ("function() { return 1 + 1 }", "2.0"),
        ("function named(a) { return 1; };", "1.0"),
        ("(() => 3)", "() => 3"),
        ("() => 3", "3.0"),
        ("x => 4", "4.0"),
        ("1 + 2", "3.0"),
        ("1 + 2;", "3.0"),
        ("return 5", "5.0"),
        ("return", "undefined"),
        ("var a = 2; a * 3", "6.0"),
        ("var a = ';'; a + '}'", "\";}\""),
        ("if (true) { return 'x' } return 'y'", "\"x\""),
        ("{ let a = 1; }", "undefined"),
        ("", "undefined"),
        ("tojson({a: [1, 'x', null], b: NumberLong(5)})", "\n\t\"b\" : NumberLong(5)\n}"),
        ("tojsononeline({a: 1})", "\"{ \"a\" : 1 }\""),
        ("hex_md5('abc')", "\"900150983cd24fb0d6963f7d28e17f72\""),
        ("Array.sum([1, 2, 3]) + Array.avg([1, 3])", "8.0"),
        ("Array.contains([1, 2], 2) && isNumber(1) && isString('') && isObject({})", "true"),
        ("print('nothing')", "undefined"),
        ("typeof require + typeof process + typeof std + typeof fetch", "undefinedundefined"),
    ];
    for (text, expected) in rows {
        let got = eval(text, &[]);
        assert!(got.contains(expected), "{text}: {got}");
    }
}

#[test]
fn where_sees_the_document_as_this_and_obj() {
    let bench = Bench::new(0);
    let row = doc("{a: 3, b: {c: [1, 2]}}");
    for (text, expected) in [
        ("this.a > 2", true),
        ("obj.a > 3", false),
        ("function() { return this.b.c[1] == 2 && obj === this }", true),
        ("return", false),
        ("this.a - 3", false),
        ("'x'", true),
        ("NumberLong(0)", true),
    ] {
        assert_eq!(bench.test(text, &row).expect("a result"), expected, "{text}");
    }
}

#[test]
fn what_is_thrown_is_told() {
    let rows = [
        ("throw 'x'", "139 uncaught exception: x"),
        ("throw null", "139 uncaught exception: null"),
        ("throw new TypeError('no')", "139 TypeError: no :\n@:1:"),
        ("nope", "139 ReferenceError: nope is not defined :\n@:1:"),
        ("function f() { nope() } ; f()", "139 ReferenceError: nope is not defined :\nf@:1:"),
        ("this.nope.x", "139 TypeError: cannot read property 'x' of undefined :\n@:1:"),
        ("a b", "139 SyntaxError: "),
        ("assert(false, 'why')", "139 Error: assert failed : why :\n"),
    ];
    for (text, expected) in rows {
        let got = eval(text, &[]);
        assert!(got.starts_with(expected), "{text}: {got}");
    }
}

#[test]
fn nothing_is_left_for_the_next_request() {
    let bench = Bench::new(0);
    bench.call("function() { left = 1; Array.sum = null; Object.prototype.x = 2; }", &[]).unwrap();
    let seen = bench.call("typeof left + typeof Array.sum + typeof ({}).x", &[]).unwrap();
    assert_eq!(seen.value().as_str(), Some("undefinedfunctionundefined"));
    assert_eq!(bench.engines.running(), 0);
}
