//! What others call to read JSON.

use super::dialect::{PLAIN, SHELL};
use super::reader::{Reader, Result};
use crate::{DocBuf, DocWriter, ValueBuf, ValueSlot};

/// Reads one document of Extended JSON or the shell's notation. The error says what is wrong and where (byte
/// position).
pub fn parse(text: &str) -> Result<DocBuf> {
    let mut reader = Reader::new(text, &SHELL);
    reader.expect('{')?;
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    reader.fields(&mut writer)?;
    writer.finish();
    reader.end()?;
    DocBuf::from_bytes(bytes).map_err(|error| error.to_string())
}

/// Parses one value of any type.
pub fn parse_value(text: &str) -> Result<ValueBuf> {
    let mut reader = Reader::new(text, &SHELL);
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    reader.value(writer.slot(""))?;
    writer.finish();
    reader.end()?;
    let doc = DocBuf::from_bytes(bytes).map_err(|error| error.to_string())?;
    Ok(ValueBuf::new(doc.get("")))
}

/// Reads an object or an array, as `bracket` says which, of JSON as RFC 8259 has it into `slot`: `{"$oid": "..."}`
/// stays a document. What was written before an error is to be thrown away.
pub fn parse_plain(text: &str, bracket: char, slot: ValueSlot<'_>) -> Result<()> {
    let mut reader = Reader::new(text, &PLAIN);
    if reader.peek() != Some(bracket) {
        return reader.fail(&format!("expected '{bracket}'"));
    }
    reader.value(slot)?;
    reader.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::json::{to_canonical, to_relaxed};

    #[test]
    fn canonical_reads_back() {
        let text = concat!(
            r#"{"a":{"$numberInt":"1"},"b":{"$numberLong":"2"},"c":{"$numberDouble":"-0.0"},"#,
            r#""d":{"$numberDecimal":"1.10"},"e":{"$oid":"000102030405060708090a0b"},"#,
            r#""f":{"$date":{"$numberLong":"-5"}},"g":{"$timestamp":{"t":1,"i":2}},"#,
            r#""h":{"$binary":{"base64":"AQI=","subType":"80"}},"i":[{"$minKey":1},null],"#,
            r#""j":{"$regularExpression":{"pattern":"a/b","options":"i"}},"k":{"$code":"x"},"#,
            r#""l":{"$code":"x","$scope":{"y":true}},"m":{"$symbol":"s"},"n":{"$undefined":true},"#,
            r#""o":{"$dbPointer":{"$ref":"a.b","$id":{"$oid":"000102030405060708090a0b"}}},"#,
            r#""p":{"$maxKey":1},"q":{},"r":[],"s":"\"\\\n\u0001"}"#
        );
        let doc = parse(text).unwrap();
        assert_eq!(to_canonical(doc.as_doc()), text);
    }

    #[test]
    fn shell_notation() {
        let doc = parse(
            "{a: 1, 'b.c': 5000000000, c: 1.5, d: NumberLong(5), e: ISODate('1970-01-01'), \
             f: /a\\/[/]b/mi, g: NumberDecimal('1.0'), h: [1, -Infinity, NaN,], \
             i: UUID('00112233-4455-6677-8899-aabbccddeeff'), j: Timestamp(1, 2), k: MinKey, \
             l: BinData(0, 'AQ=='), m: undefined, n: new Date(5), $o: {$gt: 1}}",
        );
        assert_eq!(
            to_relaxed(doc.unwrap().as_doc()),
            concat!(
                r#"{"a":1,"b.c":5000000000,"c":1.5,"d":5,"e":{"$date":"1970-01-01T00:00:00Z"},"#,
                r#""f":{"$regularExpression":{"pattern":"a/[/]b","options":"im"}},"#,
                r#""g":{"$numberDecimal":"1.0"},"#,
                r#""h":[1,{"$numberDouble":"-Infinity"},{"$numberDouble":"NaN"}],"#,
                r#""i":{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}},"#,
                r#""j":{"$timestamp":{"t":1,"i":2}},"k":{"$minKey":1},"#,
                r#""l":{"$binary":{"base64":"AQ==","subType":"00"}},"m":{"$undefined":true},"#,
                r#""n":{"$date":"1970-01-01T00:00:00.005Z"},"$o":{"$gt":1}}"#
            )
        );
        assert_eq!(parse_value("-3").unwrap().value(), Value::Int32(-3));
        assert_eq!(parse_value("1e2").unwrap().value(), Value::Double(100.0));
    }

    #[test]
    fn wrong_text_is_an_error() {
        let deep = "[".repeat(500);
        for text in ["", "{", "{a}", "{a: }", "{a: 1", "{a: x}", "{a: 'x}", "{a: 1} x", &deep] {
            assert!(parse(text).is_err() && parse_value(text).is_err(), "{text}");
        }
    }

    fn plain(text: &str) -> std::result::Result<String, String> {
        let bracket = if text.trim_start().starts_with('[') { '[' } else { '{' };
        let mut done = Ok(());
        let doc = DocBuf::build(|out| done = parse_plain(text, bracket, out.slot("v")));
        done.map(|()| to_canonical(doc.as_doc()))
    }

    #[test]
    fn plain_json_is_rfc_8259() {
        assert_eq!(
            plain(
                " {\"a\":[1,-5000000000,9223372036854775808,1.5e3,true,false,null,{}],\n\"\":\"\"} "
            ),
            Ok(concat!(
                r#"{"v":{"a":[{"$numberInt":"1"},{"$numberLong":"-5000000000"},"#,
                r#"{"$numberDouble":"9.223372036854776e+18"},{"$numberDouble":"1500.0"},"#,
                r#"true,false,null,{}],"":""}}"#
            )
            .to_owned())
        );
        // A name may come twice; objects of Extended JSON stay documents.
        let twice = r#"{"$oid":"x","$oid":"y"}"#;
        assert_eq!(plain(twice), Ok(format!("{{\"v\":{twice}}}")));
        let escapes = plain(r#"["\ud83d\ude00\/\u0000"]"#);
        assert_eq!(escapes, Ok("{\"v\":[\"\u{1f600}/\\u0000\"]}".to_owned()));
        for (text, problem) in [
            ("", "expected '{' at position 0"),
            ("{a:1}", "expected a field name at position 1"),
            ("{'a':1}", "expected a field name at position 1"),
            ("{\"a\" 1}", "expected ':' at position 5"),
            ("{\"a\":1,}", "expected a field name at position 7"),
            ("{\"a\":1 \"b\"}", "expected ',' or '}' at position 7"),
            ("{\"\\u0000\":1}", "a field name holds a zero byte at position 9"),
            ("[1,]", "expected a value at position 3"),
            ("[1 2]", "expected ',' or ']' at position 3"),
            ("[1] 2", "unexpected text behind the value at position 4"),
            ("[\u{a0}1]", "expected a value at position 1"),
            ("[NaN]", "expected a value at position 1"),
            ("[+1]", "expected a value at position 1"),
            ("[.5]", "expected a value at position 1"),
            ("[1.]", "bad number at position 1"),
            ("[01]", "bad number at position 1"),
            ("[-]", "bad number at position 1"),
            ("[1e999]", "bad number at position 1"),
            ("[\"a", "string has no end at position 2"),
            ("[\"\n\"]", "control character in a string at position 3"),
            ("[\"\\0\"]", "bad escape at position 4"),
            ("[\"\\", "bad escape at position 4"),
            ("[\"\\u00g0\"]", "expected four hexadecimal digits at position 4"),
            ("[\"\\u+123\"]", "expected four hexadecimal digits at position 4"),
            ("[\"\\ud800\"]", "half of a surrogate pair at position 8"),
            ("[\"\\ud800\\u0041\"]", "half of a surrogate pair at position 14"),
        ] {
            assert_eq!(plain(text), Err(problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn notations_differ_in_strings_and_depth() {
        let text = |text: &str| parse_value(text).map(|v| v.value().as_str().unwrap().to_owned());
        assert_eq!(text("'\\0\\x\n'").as_deref(), Ok("\0x\n"));
        assert_eq!(text("'\\ud800'").as_deref(), Ok("\u{fffd}"));
        let nested =
            |open: usize, inner: &str| format!("{}{inner}{}", "[".repeat(open), "]".repeat(open));
        let deep = |at: usize| Some(format!("nesting is too deep at position {at}"));
        // The document around a value counts in both; the shell's notation counts scalars too.
        assert!(plain(&nested(199, "1")).is_ok());
        assert_eq!(plain(&nested(200, "")).err(), deep(199));
        assert!(parse_value(&nested(199, "1")).is_ok());
        assert_eq!(parse_value(&nested(200, "1")).err(), deep(200));
        assert!(parse_value(&nested(200, "")).is_ok());
    }
}
