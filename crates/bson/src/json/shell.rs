//! What people type into the shell: words, calls such as `NumberLong(5)`, regular expressions.

use super::date;
use super::made::{put_code, put_pointer, put_regex};
use super::reader::{Reader, Result};
use super::tags::decode_hex;
use crate::{Value, ValueBuf, ValueSlot};

impl<'t> Reader<'t> {
    /// A run of characters of names.
    pub(super) fn word(&mut self) -> &'t str {
        self.space();
        let rest = self.rest();
        let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
        let len = rest.find(|c| !name(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    pub(super) fn regex(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        let mut in_class = false;
        let rest = self.rest();
        let end = rest.find(|c| {
            let closes = c == '/' && !escaped && !in_class;
            match c {
                '[' if !escaped => in_class = true,
                ']' if !escaped => in_class = false,
                _ => {}
            }
            escaped = c == '\\' && !escaped;
            closes
        });
        let Some(len) = end else { return self.fail("regular expression has no end") };
        self.at = start + len + 1;
        let rest = self.rest();
        let flags = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        self.at += flags;
        put_regex(&self.text[start..start + len].replace("\\/", "/"), &rest[..flags], slot);
        Ok(())
    }

    /// A word: a constant or a call such as `NumberLong(5)`.
    pub(super) fn name(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        let mut word = self.word();
        if word == "new" {
            word = self.word();
        }
        match word {
            "null" => slot.put(Value::Null),
            "true" => slot.put(true),
            "false" => slot.put(false),
            "undefined" => slot.put(Value::Undefined),
            "NaN" => slot.put(f64::NAN),
            "Infinity" => slot.put(f64::INFINITY),
            "MinKey" | "MaxKey" => {
                if self.accept('(') {
                    self.expect(')')?;
                }
                slot.put(if word == "MinKey" { Value::MinKey } else { Value::MaxKey });
            }
            _ => return self.call(word, slot),
        }
        Ok(())
    }

    fn call(&mut self, name: &str, slot: ValueSlot<'_>) -> Result<()> {
        if !self.accept('(') {
            return self.fail(&format!("unknown word '{name}'"));
        }
        let mut bytes = Vec::new();
        let mut args = Vec::new();
        while !self.accept(')') {
            args.push(self.owned()?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        let arg = |i: usize| args.get(i).map_or(Value::Missing, ValueBuf::value);
        let integer = |i: usize| match arg(i) {
            Value::String(s) => s.parse::<i64>().ok(),
            value => crate::number::as_i64_exact(value),
        };
        match (name, arg(0)) {
            ("ObjectId", Value::String(s)) => return self.object_id(s, slot),
            ("ISODate" | "Date", Value::String(s)) => match date::parse_iso(s) {
                Some(ms) => slot.put(Value::DateTime(ms)),
                None => return self.fail("bad date"),
            },
            ("NumberDecimal" | "Decimal128", Value::String(s)) => return self.decimal(s, slot),
            ("NumberDecimal" | "Decimal128", v) => return self.decimal(&v.to_string(), slot),
            ("UUID", Value::String(s)) => return self.uuid(s, slot),
            ("BinData", subtype) => {
                return self.binary(arg(1).as_str().unwrap_or("!"), subtype, slot);
            }
            ("HexData", subtype) => {
                bytes = arg(1).as_str().and_then(decode_hex).unwrap_or(bytes);
                let subtype = crate::number::as_i64_exact(subtype).unwrap_or(0) as u8;
                slot.put(Value::Binary(crate::Binary { subtype, bytes: &bytes }));
            }
            ("Timestamp", Value::Doc(d)) => return self.timestamp(d.get("t"), d.get("i"), slot),
            ("Timestamp", t) => return self.timestamp(t, arg(1), slot),
            ("RegExp", Value::String(s)) => put_regex(s, arg(1).as_str().unwrap_or(""), slot),
            ("Symbol", Value::String(s)) => slot.put(Value::Symbol(s)),
            ("Code", Value::String(s)) => match arg(1) {
                Value::Doc(scope) => put_code(s, scope, slot),
                _ => slot.put(Value::Code(s)),
            },
            ("DBPointer", Value::String(ns)) => match arg(1) {
                Value::ObjectId(id) => put_pointer(ns, id, slot),
                _ => return self.fail("bad DBPointer"),
            },
            ("Double", v) => match crate::number::as_f64(v) {
                Some(n) => slot.put(n),
                None => return self.fail("bad number"),
            },
            ("ISODate" | "Date", _) => match integer(0) {
                Some(n) => slot.put(Value::DateTime(n)),
                None => return self.fail("bad date"),
            },
            ("NumberLong" | "Long", _) => match integer(0) {
                Some(n) => slot.put(n),
                None => return self.fail("bad number"),
            },
            ("NumberInt" | "Int32", _) => match integer(0).and_then(|n| i32::try_from(n).ok()) {
                Some(n) => slot.put(n),
                None => return self.fail("bad number"),
            },
            _ => return self.fail(&format!("cannot read {name}(...)")),
        }
        Ok(())
    }
}
