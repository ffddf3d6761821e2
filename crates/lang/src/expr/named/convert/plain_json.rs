//! Plain JSON (RFC 8259), as `$convert` reads and prints it: only objects, arrays, strings, numbers, true, false,
//! null.
//!
//! `{"$oid": "..."}` stays a document; `$deserializeEJSON` converts such tags.
use super::*;
use crate::expr::print;
use nagi_bson::{ArrayWriter, DEPTH_MAX, Doc, DocBuf, DocWriter, ValueSlot, json};

/// The maximal number of bytes that one byte of text becomes, with the growing buffer: an element of `[1,1,...]` has
/// two characters of text and becomes an index and an int32.
const JSON_GROWTH: usize = 12;

/// Parses a text that consists of one object or one array.
pub(super) fn read<'a>(cx: &Eval<'a>, text: &str, object: bool) -> Result<Value<'a>> {
    cx.check_work(JSON_GROWTH * text.len())?;
    let mut reader = Reader { text, at: 0, depth: 0 };
    let wanted = if object { b'{' } else { b'[' };
    let mut done = Ok(());
    let doc = DocBuf::build(|out| done = reader.whole(wanted, out.slot("v")));
    match done {
        Ok(()) => Ok(Doc::trusted(cx.bytes(doc.as_bytes())?).get("v")),
        Err(problem) => Err(Error::new(
            Code::CONVERSION_FAILURE,
            format!(
                "Failed to parse JSON in $convert with no onError value: {problem} at position {}",
                reader.at
            ),
        )),
    }
}

type Read = std::result::Result<(), &'static str>;

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn whole(&mut self, wanted: u8, slot: ValueSlot<'_>) -> Read {
        if self.peek() != Some(wanted) {
            return Err(if wanted == b'{' { "expected '{'" } else { "expected '['" });
        }
        self.value(slot)?;
        if self.peek().is_some() { Err("unexpected text behind the value") } else { Ok(()) }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, slot: ValueSlot<'_>) -> Read {
        match self.peek() {
            Some(b'{') => self.nested(|this| slot.doc(|out| this.fields(out))),
            Some(b'[') => self.nested(|this| slot.array(|out| this.items(out))),
            Some(b'"') => {
                slot.put(&*self.string()?);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(slot),
            _ => self.word(slot),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Read) -> Read {
        // One level is reserved for the document in which the value is built.
        if self.depth + 1 >= DEPTH_MAX {
            return Err("nesting is too deep");
        }
        self.depth += 1;
        self.at += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    fn fields(&mut self, out: &mut DocWriter<'_>) -> Read {
        if self.accept(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err("expected a field name");
            }
            let name = self.string()?;
            if name.contains('\0') {
                return Err("a field name holds a zero byte");
            }
            if !self.accept(b':') {
                return Err("expected ':'");
            }
            self.value(out.slot(&name))?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err("expected ',' or '}'"),
            }
        }
    }

    fn items(&mut self, out: &mut ArrayWriter<'_>) -> Read {
        if self.accept(b']') {
            return Ok(());
        }
        loop {
            self.value(out.slot())?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err("expected ',' or ']'"),
            }
        }
    }

    fn word(&mut self, slot: ValueSlot<'_>) -> Read {
        let rest = &self.text[self.at..];
        let words =
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)];
        for (word, value) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                slot.put(value);
                return Ok(());
            }
        }
        Err("expected a value")
    }

    fn number(&mut self, slot: ValueSlot<'_>) -> Read {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
        let number = &rest[..end.unwrap_or(rest.len())];
        let digits = number.strip_prefix('-').unwrap_or(number);
        let padded = digits.len() > 1
            && digits.starts_with('0')
            && !digits.starts_with("0.")
            && !digits.starts_with("0e")
            && !digits.starts_with("0E");
        let open = digits.ends_with('.') || digits.starts_with('.') || digits.contains(".e");
        if padded || open || digits.starts_with('+') {
            return Err("bad number");
        }
        let whole = number.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let value = match number.parse::<i64>() {
            Ok(n) if whole => i32::try_from(n).map_or(Value::Int64(n), Value::Int32),
            _ => match number.parse::<f64>() {
                Ok(n) if n.is_finite() => Value::Double(n),
                _ => return Err("bad number"),
            },
        };
        self.at += number.len();
        slot.put(value);
        Ok(())
    }

    fn string(&mut self) -> std::result::Result<String, &'static str> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                return Err("string has no end");
            };
            out.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Ok(out),
                b'\\' => out.push(self.escape()?),
                _ => return Err("control character in a string"),
            }
        }
    }

    fn escape(&mut self) -> std::result::Result<char, &'static str> {
        let escape = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        Ok(match escape {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'u') => {
                let mut unit = self.unit()?;
                if (0xD800..0xDC00).contains(&unit) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.unit()?;
                    if !(0xDC00..0xE000).contains(&low) {
                        return Err("half of a surrogate pair");
                    }
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                }
                char::from_u32(unit).ok_or("half of a surrogate pair")?
            }
            _ => return Err("bad escape"),
        })
    }

    fn unit(&mut self) -> std::result::Result<u32, &'static str> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or("");
        if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("expected four hexadecimal digits");
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| "expected four hexadecimal digits")
    }
}

/// Prints a document or an array as JSON. Values of types that JSON does not have are printed as strings.
pub(super) fn print(cx: &Eval<'_>, value: Value<'_>) -> Result<String> {
    let mut out = String::new();
    append(cx, &mut out, value)?;
    Ok(out)
}

fn append(cx: &Eval<'_>, out: &mut String, value: Value<'_>) -> Result<()> {
    match value {
        Value::Doc(doc) => {
            out.push('{');
            for (at, element) in doc.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                json::write_relaxed(out, Value::String(element.name()));
                out.push(':');
                append(cx, out, element.value())?;
                cx.check_written(out.len())?;
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                append(cx, out, item)?;
                cx.check_written(out.len())?;
            }
            out.push(']');
        }
        Value::Missing | Value::Null | Value::Undefined => out.push_str("null"),
        Value::Bool(_) | Value::Int32(_) | Value::Int64(_) => json::write_relaxed(out, value),
        Value::Double(n) if n.is_finite() => out.push_str(&print::double(n)),
        value => {
            let arena = bumpalo::Bump::new();
            let vars = crate::expr::Vars::EMPTY;
            let cx = Eval::new(Doc::EMPTY, &vars, &arena, 0);
            let text = texts::to_string(&cx, value, How::format("auto"))?;
            json::write_relaxed(out, text);
        }
    }
    Ok(())
}
