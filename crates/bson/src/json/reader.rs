//! The reader of all notations: tokens, strings, objects and arrays, straight into BSON bytes.
//!
//! The [`Dialect`] says what a notation allows. What only the shell has is in `shell.rs`, the types of Extended
//! JSON in `tags.rs`, numbers in `numbers.rs`.

use super::dialect::{Depth, Dialect};
use super::tags::TAGS;
use crate::{ArrayWriter, DEPTH_MAX, DocBuf, DocWriter, Value, ValueBuf, ValueSlot};

/// The error says what is wrong and where (byte position).
pub(super) type Result<T> = std::result::Result<T, String>;

pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    depth: usize,
    pub(super) dialect: &'static Dialect,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, dialect: &'static Dialect) -> Reader<'t> {
        Reader { text, at: 0, depth: 0, dialect }
    }

    #[cold]
    pub(super) fn fail<T>(&self, what: &str) -> Result<T> {
        Err(format!("{what} at position {}", self.at))
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn space(&mut self) {
        let rest = self.rest();
        let after = match self.dialect.has_unicode_spaces {
            true => rest.trim_start(),
            false => rest.trim_start_matches([' ', '\t', '\n', '\r']),
        };
        self.at += rest.len() - after.len();
    }

    /// The next character that is no space.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<char> {
        match self.text.as_bytes().get(self.at) {
            Some(mark @ b'!'..=b'~') => Some(char::from(*mark)),
            _ => self.peek_behind_space(),
        }
    }

    #[inline(never)]
    fn peek_behind_space(&mut self) -> Option<char> {
        self.space();
        self.rest().chars().next()
    }

    pub(super) fn accept(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    pub(super) fn expect(&mut self, c: char) -> Result<()> {
        if self.accept(c) { Ok(()) } else { self.fail(&format!("expected '{c}'")) }
    }

    pub(super) fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { self.fail(self.dialect.texts.more_text) }
    }

    fn is_quote(&self, c: char) -> bool {
        c == '"' || c == '\'' && self.dialect.has_single_quotes
    }

    /// A field name and its colon.
    pub(super) fn key(&mut self) -> Result<String> {
        let key = match self.peek() {
            Some(c) if self.is_quote(c) => self.string()?,
            _ if !self.dialect.has_words => return self.fail("expected a field name"),
            _ => match self.word() {
                "" => return self.fail("expected a field name"),
                word => word.to_owned(),
            },
        };
        if key.contains('\0') {
            return self.fail(self.dialect.texts.zero_byte);
        }
        self.expect(':')?;
        Ok(key)
    }

    /// A string whose first quote is next.
    fn string(&mut self) -> Result<String> {
        let is_loose = self.dialect.has_loose_strings;
        let quote = self.rest().bytes().next().unwrap_or(b'"');
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let ends = |b: u8| b == quote || b == b'\\' || b < b' ' && !is_loose;
            let Some(len) = rest.bytes().position(ends) else {
                return self.fail("string has no end");
            };
            out.push_str(&rest[..len]);
            self.at += len + 1;
            match rest.as_bytes()[len] {
                b'\\' => out.push(self.escape()?),
                end if end == quote => return Ok(out),
                _ => return self.fail("control character in a string"),
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<char> {
        let meant = match self.text.as_bytes().get(self.at) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
            Some(b'u') => {
                self.at += 1;
                return self.code_point();
            }
            _ => return self.loose_escape(),
        };
        self.at += 1;
        Ok(meant)
    }

    /// An escape that JSON has not.
    #[cold]
    fn loose_escape(&mut self) -> Result<char> {
        let is_loose = self.dialect.has_loose_strings;
        let Some(c) = self.rest().chars().next().filter(|_| is_loose) else {
            self.at += usize::from(!is_loose);
            return self.fail(if is_loose { "string has no end" } else { "bad escape" });
        };
        self.at += c.len_utf8();
        Ok(if c == '0' { '\0' } else { c })
    }

    /// One or two groups of digits behind `\u`.
    fn code_point(&mut self) -> Result<char> {
        const HALF: &str = "half of a surrogate pair";
        let is_loose = self.dialect.has_loose_strings;
        let mut unit = self.unit()?;
        if (0xD800..0xDC00).contains(&unit) && self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.unit()?;
            if !is_loose && !(0xDC00..0xE000).contains(&low) {
                return self.fail(HALF);
            }
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
        }
        match char::from_u32(unit) {
            Some(c) => Ok(c),
            None if is_loose => Ok(char::REPLACEMENT_CHARACTER),
            None => self.fail(HALF),
        }
    }

    fn unit(&mut self) -> Result<u32> {
        let digits = self.rest().get(..4).unwrap_or("");
        match u32::from_str_radix(digits, 16) {
            Ok(unit) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
                self.at += 4;
                Ok(unit)
            }
            _ => self.fail("expected four hexadecimal digits"),
        }
    }

    /// The fields of an object whose `{` was read, with its `}`.
    pub(super) fn fields(&mut self, out: &mut DocWriter<'_>) -> Result<()> {
        if self.accept('}') {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            self.value(out.slot(&key))?;
            if self.closes('}')? {
                return Ok(());
            }
        }
    }

    fn items(&mut self, out: &mut ArrayWriter<'_>) -> Result<()> {
        if self.accept(']') {
            return Ok(());
        }
        loop {
            self.value(out.slot())?;
            if self.closes(']')? {
                return Ok(());
            }
        }
    }

    /// Reads the bracket or the comma behind an item; whether it was the last one.
    fn closes(&mut self, bracket: char) -> Result<bool> {
        let texts = &self.dialect.texts;
        match self.peek() {
            Some(c) if c == bracket => {
                self.at += 1;
                Ok(true)
            }
            Some(',') => {
                self.at += 1;
                Ok(self.dialect.has_last_commas && self.accept(bracket))
            }
            _ if bracket == '}' => self.fail(texts.open_object),
            _ => self.fail(texts.open_array),
        }
    }

    /// A value of any type.
    pub(super) fn value(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        let counts = self.dialect.depth == Depth::Values;
        if counts {
            self.enter(DEPTH_MAX)?;
        }
        let done = match self.peek() {
            Some('{') => self.object(slot),
            Some('[') => self.nested(|this| slot.array(|out| this.items(out))),
            Some(c) if self.is_quote(c) => self.string().map(|s| slot.put(s.as_str())),
            Some(c) if self.begins_number(c) => self.number(slot),
            Some('/') if self.dialect.has_words => self.regex(slot),
            Some(_) if self.dialect.has_words => self.name(slot),
            Some(_) => self.constant(slot),
            None => self.fail("expected a value"),
        };
        self.depth -= usize::from(counts);
        done
    }

    fn enter(&mut self, depth_max: usize) -> Result<()> {
        self.depth += 1;
        if self.depth > depth_max { self.fail("nesting is too deep") } else { Ok(()) }
    }

    /// What stands in the brackets of an object or an array that is next.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let counts = self.dialect.depth == Depth::Containers;
        if counts {
            self.enter(DEPTH_MAX - 1)?;
        }
        self.at += 1;
        let done = read(self);
        self.depth -= usize::from(counts);
        done
    }

    fn object(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        self.nested(|this| {
            if this.dialect.has_tags {
                let start = this.at;
                if this.peek() != Some('}') {
                    let key = this.key()?;
                    if TAGS.contains(&key.as_str()) {
                        this.tagged(&key, slot)?;
                        this.accept(',');
                        return this.expect('}');
                    }
                    this.at = start;
                }
            }
            slot.doc(|out| this.fields(out))
        })
    }

    fn constant(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        let rest = self.rest();
        let words =
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)];
        for (word, value) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                slot.put(value);
                return Ok(());
            }
        }
        self.fail("expected a value")
    }

    /// Reads any value and hands it out owned.
    pub(super) fn owned(&mut self) -> Result<ValueBuf> {
        let mut bytes = Vec::new();
        let mut writer = DocWriter::new(&mut bytes);
        self.value(writer.slot(""))?;
        writer.finish();
        let doc = DocBuf::from_bytes(bytes).map_err(|error| error.to_string())?;
        Ok(ValueBuf::new(doc.get("")))
    }
}
