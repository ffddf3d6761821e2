//! Conversion of each BSON type to JavaScript and back.

use nagi_bson::json;

use crate::{Bench, doc, eval, shown};

/// The result of a function for a document, as canonical extended JSON.
fn of(text: &str, argument: &str) -> String {
    let argument = doc(argument);
    match Bench::new(64 << 20).call(text, &[argument.as_doc().into()]) {
        Ok(value) => {
            let held = nagi_bson::DocBuf::build(|out| out.put("r", value.value()));
            json::to_canonical(held.as_doc())
        }
        error => shown(error),
    }
}

/// The result of `expression`, as canonical extended JSON.
fn made(expression: &str) -> String {
    of(&format!("function() {{ return {expression}; }}"), "{}")
}

#[test]
fn a_document_that_is_given_back_is_the_same() {
    let all = concat!(
        r#"{"i":{"$numberInt":"5"},"l":{"$numberLong":"9007199254740993"}"#,
        r#","d":{"$numberDouble":"5.0"},"z":{"$numberDouble":"-0.0"},"s":"x","n":null,"b":true"#,
        r#","o":{"a":{"$numberInt":"1"},"__proto__":{"$numberInt":"2"}}"#,
        r#","a":[{"$numberInt":"1"},[{"$numberInt":"2"}],{"k":{"$numberInt":"3"}}]"#,
        r#","id":{"$oid":"0123456789abcdef01234567"},"t":{"$date":{"$numberLong":"-5"}}"#,
        r#","ts":{"$timestamp":{"t":4294967295,"i":2}},"bin":{"$binary":{"base64":"/wA=""#,
        r#","subType":"05"}},"u":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#,
        r#","r":{"$regularExpression":{"pattern":"a+","options":"i"}},"x":{"$numberDecimal":"1.50"}"#,
        r#","c":{"$code":"f"},"cs":{"$code":"f","$scope":{"v":{"$numberInt":"1"}}}"#,
        r#","lo":{"$minKey":1},"hi":{"$maxKey":1},"p":{"$dbPointer":{"$ref":"a.b""#,
        r#","$id":{"$oid":"0123456789abcdef01234567"}}},"un":{"$undefined":true}}"#,
    );
    assert_eq!(of("function(d) { return d; }", all), format!("{{\"r\":{all}}}"));
    assert_eq!(of("d => ({x: d}).x", all), format!("{{\"r\":{all}}}"));
}

#[test]
fn numbers_are_doubles_unless_they_were_int32_there() {
    let rows = [
        ("d => d.a", r#"{"r":{"$numberDouble":"1.0"}}"#),
        ("d => ({a: d.a})", r#"{"r":{"a":{"$numberDouble":"1.0"}}}"#),
        (
            "d => { d.b = 2; return d; }",
            r#"{"r":{"a":{"$numberInt":"1"},"b":{"$numberDouble":"2.0"}}}"#,
        ),
        ("d => { d.a += 1; return d; }", r#"{"r":{"a":{"$numberDouble":"2.0"}}}"#),
        ("d => NumberInt(d.a)", r#"{"r":{"$numberInt":"1"}}"#),
        ("d => NumberLong(d.a)", r#"{"r":{"$numberLong":"1"}}"#),
    ];
    for (text, expected) in rows {
        assert_eq!(of(text, "{a: 1}"), expected, "{text}");
    }
}

#[test]
fn types_of_the_shell_can_be_made() {
    let rows = [
        ("NumberLong('9223372036854775807')", r#"{"$numberLong":"9223372036854775807"}"#),
        ("NumberLong(1e300)", r#"{"$numberLong":"9223372036854775807"}"#),
        ("NumberLong(5) + 1", r#"{"$numberDouble":"6.0"}"#),
        ("NumberInt('7')", r#"{"$numberInt":"7"}"#),
        ("NumberDecimal('0.10')", r#"{"$numberDecimal":"0.10"}"#),
        ("ObjectId('0123456789ABCDEF01234567')", r#"{"$oid":"0123456789abcdef01234567"}"#),
        ("new ObjectId('0123456789abcdef01234567').str", r#""0123456789abcdef01234567""#),
        ("new Date(5)", r#"{"$date":{"$numberLong":"5"}}"#),
        ("ISODate('1970-01-01T00:00:01Z')", r#"{"$date":{"$numberLong":"1000"}}"#),
        ("ISODate('19700101T01:00:00+0100')", r#"{"$date":{"$numberLong":"0"}}"#),
        ("Timestamp(1, 2)", r#"{"$timestamp":{"t":1,"i":2}}"#),
        ("BinData(0, '/w==')", r#"{"$binary":{"base64":"/w==","subType":"00"}}"#),
        ("HexData(2, 'ff')", r#"{"$binary":{"base64":"/w==","subType":"02"}}"#),
        (
            "UUID('00010203-0405-0607-0809-0a0b0c0d0e0f')",
            r#"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#,
        ),
        ("MinKey", r#"{"$minKey":1}"#),
        ("new MaxKey()", r#"{"$maxKey":1}"#),
        ("/a/gi", r#"{"$regularExpression":{"pattern":"a","options":"gi"}}"#),
        ("DBRef('c', 1)", r#"{"$ref":"c","$id":{"$numberDouble":"1.0"}}"#),
        ("new Code('f')", r#"{"$code":"f"}"#),
        ("(function() { return 1 })", r#"{"$code":"function() { return 1 }"}"#),
        ("undefined", r#"{"$undefined":true}"#),
        ("[1, null, [undefined]]", r#"[{"$numberDouble":"1.0"},null,[{"$undefined":true}]]"#),
        ("10n", r#"{"$numberLong":"10"}"#),
        ("'\\ud800x'", "\"\u{fffd}x\""),
        ("NaN", r#"{"$numberDouble":"NaN"}"#),
    ];
    for (expression, expected) in rows {
        assert_eq!(made(expression), format!("{{\"r\":{expected}}}"), "{expression}");
    }
}

#[test]
fn wrong_arguments_of_constructors_are_errors() {
    let rows = [
        ("ObjectId('x')", "139 Error: invalid object id: length :"),
        ("ObjectId(5)", "139 Error: ObjectId can only be constructed from a string :"),
        ("NumberLong('x')", "139 Error: could not convert string to long long :"),
        ("NumberDecimal('x')", "139 Error: Input is not a valid Decimal128 value. :"),
        ("Timestamp(-1, 0)", "139 Error: Timestamp time and increment must be non-negative"),
        ("BinData(0, '*')", "139 Error: invalid base64 :"),
        ("ISODate('x')", "139 Error: invalid ISO date: x :"),
        ("emit(1, 2)", "139 Error: emit may be called by map functions only :"),
    ];
    for (expression, expected) in rows {
        let got = eval(expression, &[]);
        assert!(got.starts_with(expected), "{expression}: {got}");
    }
}

#[test]
fn what_cannot_be_bson_is_refused() {
    let got = eval("function() { let a = {}; a.a = a; return a; }", &[]);
    assert!(got.starts_with("17279 Exceeded depth limit of 150"), "{got}");
    let got = eval("({'a\\0b': 1})", &[]);
    assert!(got.starts_with("16985 "), "{got}");
    let got = eval("function() { return ['x'.repeat(9 << 20), 'y'.repeat(9 << 20)]; }", &[]);
    assert!(got.starts_with("17260 "), "{got}");
    let got = eval("({get a() { throw new Error('no') }})", &[]);
    assert!(got.starts_with("139 Error: no :"), "{got}");
}
