//! The writer of JSON text: escapes, commas, and the white space that a report wants.
//!
//! Everything in the workspace that writes JSON uses this file: Extended JSON, the log, `$convert`, and the reports
//! of `nagi-bench`. They differ in white space only, which is a [`Spacing`] and [`JsonWriter::line`].
//!
//! The writer does not check that names and values alternate; a caller writes `key` and one value in an object, and
//! values in an array. It does not limit depth either. A writer with a limit of bytes writes nothing more once a text
//! would exceed it; the caller asks [`JsonWriter::is_over`].

use std::fmt::{Display, Write as _};

/// Appends `text` as a JSON string. Quotes, backslashes and the characters below U+0020 are escaped, nothing else.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

/// The length of what [`write_string`] appends.
fn string_len(text: &str) -> usize {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..b' ' => 6,
        _ => 1,
    });
    escaped.sum::<usize>() + 2
}

/// White space behind commas and colons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// `{"a":1,"b":[2,3]}`
    Compact,
    /// `{"a": 1, "b": [2, 3]}`
    Spaced,
}

/// What stands before the next item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing: it is the first one, or the value of a key, or it begins a line.
    Nothing,
    Comma,
}

/// Appends JSON to a text, item by item.
#[derive(Debug)]
pub struct JsonWriter<'o> {
    out: &'o mut String,
    spacing: Spacing,
    before: Before,
    /// The longest text.
    bytes_max: usize,
    is_over: bool,
}

impl<'o> JsonWriter<'o> {
    /// A writer of one value at the end of `out`.
    pub fn new(out: &'o mut String, spacing: Spacing) -> JsonWriter<'o> {
        JsonWriter::within(out, spacing, usize::MAX)
    }

    /// The same, with a limit of the whole text. What is written beyond it is incomplete.
    pub fn within(out: &'o mut String, spacing: Spacing, bytes_max: usize) -> JsonWriter<'o> {
        JsonWriter { out, spacing, before: Before::Nothing, bytes_max, is_over: false }
    }

    /// Whether the text would be longer than its limit.
    pub fn is_over(&self) -> bool {
        self.is_over || self.out.len() > self.bytes_max
    }

    /// Writes a string, unless it exceeds the limit.
    fn write_text(&mut self, text: &str) {
        if self.bytes_max == usize::MAX || self.out.len() + string_len(text) <= self.bytes_max {
            write_string(self.out, text);
        } else {
            self.is_over = true;
        }
    }

    /// A text with one value and a line feed: what a file of a report holds.
    pub fn file(write: impl FnOnce(&mut JsonWriter<'_>)) -> String {
        let mut out = String::new();
        write(&mut JsonWriter::new(&mut out, Spacing::Spaced));
        out.push('\n');
        out
    }

    /// Length of the whole text in bytes.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the text is still empty.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    fn begin(&mut self) {
        if self.before == Before::Comma {
            self.out.push_str(match self.spacing {
                Spacing::Compact => ",",
                Spacing::Spaced => ", ",
            });
        }
        self.before = Before::Comma;
    }

    /// The name of the next value.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.begin();
        self.write_text(name);
        self.out.push_str(match self.spacing {
            Spacing::Compact => ":",
            Spacing::Spaced => ": ",
        });
        self.before = Before::Nothing;
        self
    }

    /// An object; `fields` writes keys and values.
    pub fn object<R>(&mut self, fields: impl FnOnce(&mut Self) -> R) -> R {
        self.between("{", "}", fields)
    }

    /// An array; `items` writes values.
    pub fn array<R>(&mut self, items: impl FnOnce(&mut Self) -> R) -> R {
        self.between("[", "]", items)
    }

    fn between<R>(&mut self, open: &str, close: &str, inside: impl FnOnce(&mut Self) -> R) -> R {
        self.begin();
        self.out.push_str(open);
        self.before = Before::Nothing;
        let done = inside(self);
        self.out.push_str(close);
        self.before = Before::Comma;
        done
    }

    /// Begins a line for the next item: the comma, if one is due, a line feed, and so many blanks.
    pub fn line(&mut self, indent: usize) {
        if self.before == Before::Comma {
            self.out.push(',');
        }
        self.last_line(indent);
    }

    /// Begins a line for the bracket that closes this object or array.
    pub fn last_line(&mut self, indent: usize) {
        let _ = write!(self.out, "\n{:indent$}", "");
        self.before = Before::Nothing;
    }

    /// An array with each item on a line of its own, two blanks further than the bracket that closes it.
    pub fn rows<T>(
        &mut self,
        indent: usize,
        items: impl IntoIterator<Item = T>,
        mut row: impl FnMut(&mut Self, T),
    ) {
        self.array(|w| {
            for item in items {
                w.line(indent + 2);
                row(w, item);
            }
            w.last_line(indent);
        });
    }

    /// A string.
    pub fn string(&mut self, text: &str) {
        self.begin();
        self.write_text(text);
    }

    /// A string that `append` writes; it must not hold what needs an escape.
    pub(super) fn plain_string(&mut self, append: impl FnOnce(&mut String)) {
        self.begin();
        self.out.push('"');
        append(self.out);
        self.out.push('"');
    }

    /// A number, a truth value or null in the form that it prints.
    pub fn literal(&mut self, value: impl Display) {
        self.begin();
        let _ = write!(self.out, "{value}");
    }

    /// The same, or null.
    pub fn literal_or_null(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.literal(value),
            None => self.null(),
        }
    }

    /// A number with so many digits behind its point.
    pub fn fixed(&mut self, value: f64, digits: usize) {
        self.literal(format_args!("{value:.digits$}"));
    }

    /// The same, or null.
    pub fn fixed_or_null(&mut self, value: Option<f64>, digits: usize) {
        match value {
            Some(value) => self.fixed(value, digits),
            None => self.null(),
        }
    }

    /// `null`.
    pub fn null(&mut self) {
        self.begin();
        self.out.push_str("null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(spacing: Spacing, write: impl FnOnce(&mut JsonWriter<'_>)) -> String {
        let mut out = String::new();
        write(&mut JsonWriter::new(&mut out, spacing));
        out
    }

    #[test]
    fn escapes_what_must_be_escaped() {
        for (text, json) in [
            ("", r#""""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("\n\r\t\u{8}\u{c}\u{0}\u{1f}", r#""\n\r\t\u0008\u000c\u0000\u001f""#),
            ("/ \u{7f}\u{e9}\u{1f600}\"\u{e9}", "\"/ \u{7f}\u{e9}\u{1f600}\\\"\u{e9}\""),
        ] {
            let mut out = String::new();
            write_string(&mut out, text);
            assert_eq!(out, json);
            assert_eq!(crate::json::parse_value(&out).unwrap().value().as_str(), Some(text));
        }
    }

    #[test]
    fn commas_and_spacing() {
        let write = |w: &mut JsonWriter<'_>| {
            w.object(|w| {
                w.key("a").literal(1);
                w.key("b").array(|w| {
                    w.fixed(0.5, 2);
                    w.object(|_| ());
                    w.array(|_| ());
                    w.literal(true);
                });
                w.key("c\n").string("x");
                w.key("d").literal_or_null(None::<u64>);
                w.key("e").fixed_or_null(Some(1.0), 0);
            });
        };
        assert_eq!(
            text(Spacing::Compact, write),
            r#"{"a":1,"b":[0.50,{},[],true],"c\n":"x","d":null,"e":1}"#
        );
        assert_eq!(
            text(Spacing::Spaced, write),
            r#"{"a": 1, "b": [0.50, {}, [], true], "c\n": "x", "d": null, "e": 1}"#
        );
    }

    #[test]
    fn lines_of_a_report() {
        let rows = |count: u32| {
            JsonWriter::file(|w| {
                w.object(|w| {
                    w.key("a").literal(0);
                    w.line(1);
                    w.key("rows").rows(1, 0..count, |w, n| w.literal(n));
                });
            })
        };
        assert_eq!(rows(2), "{\"a\": 0,\n \"rows\": [\n   0,\n   1\n ]}\n");
        assert_eq!(rows(0), "{\"a\": 0,\n \"rows\": [\n ]}\n");
    }
}
