//! JSON of strangers: RFC 8259, and each name in an object once.

use nagi_bson::{Doc, DocBuf, DocWriter, Value, json};

/// The deepest object or array. Claims of real tokens have three or four levels.
const DEPTH_MAX: usize = 32;

/// Parses an object. A name that comes twice is refused: two readers of it could read different values.
///
/// # Errors
/// Why it is none; `what` begins the text.
pub(crate) fn object(what: &str, bytes: &[u8]) -> Result<DocBuf, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))?;
    let mut out = Vec::new();
    let mut writer = DocWriter::new(&mut out);
    json::parse_plain(text, '{', writer.slot(""))
        .map_err(|why| format!("{what} is not JSON: {why}"))?;
    writer.finish();
    let whole = DocBuf::from_bytes(out).map_err(|_| format!("{what} is not an object"))?;
    let object =
        whole.as_doc().get("").as_doc().ok_or_else(|| format!("{what} is not an object"))?;
    check_names(what, object, 1)?;
    Ok(DocBuf::from_doc(object))
}

fn check_names(what: &str, doc: Doc<'_>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("{what} is nested too deeply"));
    }
    let mut names: Vec<&str> = doc.iter().map(|element| element.name()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("{what} has a name twice"));
    }
    doc.iter().try_for_each(|element| check_value(what, element.value(), depth + 1))
}

fn check_value(what: &str, value: Value<'_>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("{what} is nested too deeply"));
    }
    match value {
        Value::Doc(doc) => check_names(what, doc, depth),
        Value::Array(list) => list.iter().try_for_each(|value| check_value(what, value, depth + 1)),
        _ => Ok(()),
    }
}

/// Decodes base64url without padding. Only the one text that encodes the bytes is accepted, so that no other token has
/// the same signature.
pub(crate) fn base64url(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        return None;
    }
    let bytes = json::base64_decode(text)?;
    let mut again = String::with_capacity(text.len() + 4);
    json::base64_encode(&mut again, &bytes);
    let again = again.trim_end_matches('=').bytes().map(|b| match b {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    });
    again.eq(text.bytes()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_json_only() {
        let parsed =
            object("it", br#" {"a": {"$oid": "x"}, "b": [1, {"a": 1}, {"a": 2}]} "#).unwrap();
        assert_eq!(parsed.as_doc().get("a").as_doc().unwrap().get("$oid").as_str(), Some("x"));
        for bad in [
            "",
            "[]",
            "1",
            "{a: 1}",
            "{'a': 1}",
            r#"{"a": 1,}"#,
            r#"{"a": 1} {}"#,
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            r#"{"b": {"a": 1, "a": 2}}"#,
            r#"{"b": [[{"a": 1, "a": 2}]]}"#,
            r#"{"a": NaN}"#,
        ] {
            assert!(object("it", bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(object("it", b"{\"a\": \"\xFF\"}").is_err());
        for (open, close, end) in [("[", "]", "1"), ("{\"a\":", "}", "1")] {
            for (depth, good) in [(20, true), (40, false), (100_000, false)] {
                let text = format!("{{\"a\":{}{end}{}}}", open.repeat(depth), close.repeat(depth));
                assert_eq!(object("it", text.as_bytes()).is_ok(), good, "{depth}");
            }
        }
    }

    #[test]
    fn base64url_has_one_text_for_each_value() {
        assert_eq!(base64url("_-8").unwrap(), [0xFF, 0xEF]);
        assert_eq!(base64url("").unwrap(), []);
        for bad in ["_-9", "_-8=", "/+8", "_-8 ", "_", "a\u{e9}", "Zh"] {
            assert!(base64url(bad).is_none(), "{bad}");
        }
    }
}
