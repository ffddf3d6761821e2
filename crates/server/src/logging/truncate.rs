//! Attributes of a line, each cut where its text exceeds the parameter `maxLogSizeKB`.
//!
//! A line with a cut attribute says what is missing, as in MongoDB:
//!
//! ```text
//!   "attr":{"command":{"find":"c","filter":{"a":{"$in":[1,2,3]}}},"ns":"d.c"},
//!   "truncated":{"command":{"filter":{"a":{"$in":{"3":{"type":"int","size":4}}}}}},"size":{"command":21692}
//! ```
//!
//! `truncated` has the path of the first value that is not there, or of the text that was shortened; `size` the number
//! of bytes of the whole attribute.

use nagi_bson::json::{write_relaxed, write_string};
use nagi_bson::{Array, Doc, DocBuf, Value};

use super::redact;

/// Limit of a name in `truncated` that had no space in the line.
const NAME_BYTES_MAX: usize = 64;

/// The attributes of a line as text, and what was cut.
#[derive(Default)]
pub(super) struct Attributes {
    /// A JSON object; empty without attributes.
    pub(super) text: String,
    /// The fields `truncated` and `size` of the line.
    pub(super) cut: Option<(DocBuf, DocBuf)>,
}

/// What applies to the attributes of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The maximum length of the text of each attribute; 0 for no limit.
    pub(super) bytes_max: usize,
    /// Values of clients are replaced.
    pub(super) redacted: bool,
}

impl Attributes {
    /// The fields of a document.
    pub(super) fn of(doc: Doc<'_>, limits: Limits) -> Attributes {
        let mut attributes = Attributes::default();
        doc.iter().for_each(|field| attributes.put(field.name(), field.value(), limits));
        attributes.end();
        attributes
    }

    /// Adds an attribute.
    pub(super) fn put(&mut self, name: &str, value: Value<'_>, limits: Limits) {
        let shown = if limits.redacted { redact::apply(name, value) } else { None };
        let shown = shown.as_ref().and_then(|doc| doc.as_doc().first());
        self.put_as_is(name, shown.map_or(value, |field| field.value()), limits.bytes_max);
    }

    fn put_as_is(&mut self, name: &str, value: Value<'_>, bytes_max: usize) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        write_string(&mut self.text, name);
        self.text.push(':');
        let start = self.text.len();
        write_relaxed(&mut self.text, value);
        if bytes_max == 0 || self.text.len() - start <= bytes_max {
            return;
        }
        self.text.truncate(start);
        if let Some(missing) = write_part(&mut self.text, value, start + bytes_max) {
            let add = |old: Option<DocBuf>, value: Value<'_>| {
                DocBuf::build(|w| {
                    w.extend(old.as_ref().map_or(Doc::EMPTY, DocBuf::as_doc));
                    w.put(name, value);
                })
            };
            let (truncated, sizes) = self.cut.take().unzip();
            let size = Value::Int64(size_of(value));
            self.cut = Some((add(truncated, Value::Doc(missing.as_doc())), add(sizes, size)));
        }
    }

    /// Must be called behind the last attribute.
    pub(super) fn end(&mut self) {
        if !self.text.is_empty() {
            self.text.push('}');
        }
    }
}

/// Writes a value up to the length `end` of the text. Returns what is missing: type and size of this value, or the path
/// to those of one within it.
fn write_part(out: &mut String, value: Value<'_>, end: usize) -> Option<DocBuf> {
    match value {
        Value::Doc(doc) => {
            let fields = doc.iter().map(|field| (field.name(), field.value()));
            write_parts(out, ('{', '}'), fields.map(|(name, value)| (name.to_owned(), value)), end)
        }
        Value::Array(values) => write_array(out, values, end),
        Value::String(text) => {
            let space = end.saturating_sub(out.len() + 2);
            if text.len() <= space {
                write_string(out, text);
                return None;
            }
            write_string(out, &text[..text.floor_char_boundary(space)]);
            Some(described(value))
        }
        _ => {
            write_relaxed(out, value);
            None
        }
    }
}

fn write_array(out: &mut String, values: Array<'_>, end: usize) -> Option<DocBuf> {
    let values = values.iter().enumerate().map(|(at, value)| (at.to_string(), value));
    write_parts(out, ('[', ']'), values, end)
}

fn write_parts<'v>(
    out: &mut String,
    (open, close): (char, char),
    fields: impl Iterator<Item = (String, Value<'v>)>,
    end: usize,
) -> Option<DocBuf> {
    let mut missing = None;
    out.push(open);
    let begin = out.len();
    for (name, value) in fields {
        let before = out.len();
        // A client may have chosen the name.
        if open == '{' && before + name.len() > end {
            let kept = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
            missing = Some(DocBuf::build(|w| w.put(kept, Value::Doc(described(value).as_doc()))));
            break;
        }
        if before > begin {
            out.push(',');
        }
        if open == '{' {
            write_string(out, &name);
            out.push(':');
        }
        let inner = write_part(out, value, end);
        // A value without parts is there as a whole or not at all.
        let whole = !matches!(value, Value::Doc(_) | Value::Array(_) | Value::String(_));
        let inner = match inner {
            None if whole && out.len() > end => {
                out.truncate(before);
                Some(described(value))
            }
            inner => inner,
        };
        if let Some(inner) = inner {
            missing = Some(DocBuf::build(|w| w.put(&name, Value::Doc(inner.as_doc()))));
            break;
        }
    }
    out.push(close);
    missing
}

fn described(value: Value<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("type", value.kind().name());
        w.put("size", size_of(value));
    })
}

/// The number of bytes of a value; of a text those of its characters.
fn size_of(value: Value<'_>) -> i64 {
    match value {
        Value::String(text) => text.len() as i64,
        // Without the length of the document, the type and name of the field, and the end.
        _ => DocBuf::build(|w| w.put("", value)).as_bytes().len() as i64 - 7,
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn cut(doc: &str, bytes_max: usize) -> (String, Option<(String, String)>) {
        let doc = json::parse(doc).unwrap();
        let limits = Limits { bytes_max, redacted: false };
        let found = Attributes::of(doc.as_doc(), limits);
        json::parse(&found.text).unwrap();
        let text = |doc: DocBuf| json::to_relaxed(doc.as_doc());
        (found.text, found.cut.map(|(truncated, sizes)| (text(truncated), text(sizes))))
    }

    #[test]
    fn what_is_short_is_written_as_a_whole() {
        let doc = "{\"a\":[1,{\"b\":\"x\"}],\"c\":null}";
        assert_eq!(cut(doc, 100), (doc.to_owned(), None));
        assert_eq!(cut(doc, 0), (doc.to_owned(), None));
        let limits = Limits { bytes_max: 10, redacted: true };
        assert_eq!(Attributes::of(Doc::EMPTY, limits).text, "");
    }

    #[test]
    fn a_long_name_is_not_written() {
        let name = "n".repeat(100_000);
        let (text, said) = cut(&format!("{{a: {{b: 1, {name}: 2, c: 3}}}}"), 100);
        assert_eq!(text, "{\"a\":{\"b\":1}}");
        let (truncated, _) = said.unwrap();
        assert!(truncated.contains("\"type\":\"int\"") && truncated.len() < 200, "{truncated}");
    }

    #[test]
    fn each_attribute_is_cut_and_tells_what_is_missing() {
        let (text, said) =
            cut("{a: {b: [1, 2, 3, 4, 5, 6, 7, 8, 9]}, c: 1, d: 'abcdefghijklmnopq'}", 12);
        assert_eq!(text, "{\"a\":{\"b\":[1,2,3]},\"c\":1,\"d\":\"abcdefghij\"}");
        let (truncated, sizes) = said.unwrap();
        assert_eq!(
            truncated,
            "{\"a\":{\"b\":{\"3\":{\"type\":\"int\",\"size\":4}}},\"d\":{\"type\":\"string\",\"size\":17}}"
        );
        assert_eq!(sizes, "{\"a\":76,\"d\":17}");
    }

    #[test]
    fn characters_and_nested_documents_stay_whole() {
        for bytes_max in 1..60 {
            let doc = "{a: [{b: '\u{e4}\u{f6}\u{20ac}'}, {c: {d: [[1.5, true], \
                       {$oid: '0123456789abcdef01234567'}]}}], e: 5}";
            let (text, said) = cut(doc, bytes_max);
            assert!(text.len() < bytes_max * 2 + 40, "{bytes_max}: {text}");
            assert!(said.is_some() == (bytes_max < 80), "{bytes_max}: {text}");
        }
    }
}
