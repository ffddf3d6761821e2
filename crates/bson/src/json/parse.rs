//! The parser of JSON, Extended JSON v2 and the shell's notation. It writes BSON bytes directly.

use super::{base64, date};
use crate::{ArrayWriter, Decimal128, DocBuf, DocWriter, Value, ValueBuf, ValueSlot, oid};

type Result<T> = std::result::Result<T, String>;

/// Parses one document. The error describes the problem and its byte position.
pub fn parse(text: &str) -> Result<DocBuf> {
    let mut reader = Reader { text, at: 0, depth: 0 };
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
    let mut reader = Reader { text, at: 0, depth: 0 };
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    reader.value(writer.slot(""))?;
    writer.finish();
    reader.end()?;
    let doc = DocBuf::from_bytes(bytes).map_err(|error| error.to_string())?;
    Ok(ValueBuf::new(doc.get("")))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// Names that make an object an Extended JSON value if they are its first name.
const TAGS: &[&str] = &[
    "$binary",
    "$code",
    "$date",
    "$dbPointer",
    "$maxKey",
    "$minKey",
    "$numberDecimal",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$oid",
    "$regularExpression",
    "$symbol",
    "$timestamp",
    "$undefined",
    "$uuid",
];

impl<'t> Reader<'t> {
    fn fail<T>(&self, what: &str) -> Result<T> {
        Err(format!("{what} at position {}", self.at))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        self.space();
        self.rest().chars().next()
    }

    fn accept(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.accept(c) { Ok(()) } else { self.fail(&format!("expected '{c}'")) }
    }

    fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { self.fail("unexpected text") }
    }

    /// Reads a run of characters that are allowed in names.
    fn word(&mut self) -> &'t str {
        self.space();
        let rest = self.rest();
        let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
        let len = rest.find(|c| !name(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn key(&mut self) -> Result<String> {
        let key = match self.peek() {
            Some('"' | '\'') => self.string()?,
            _ => match self.word() {
                "" => return self.fail("expected a field name"),
                word => word.to_owned(),
            },
        };
        if key.contains('\0') {
            return self.fail("field name contains a zero byte");
        }
        self.expect(':')?;
        Ok(key)
    }

    fn string(&mut self) -> Result<String> {
        let quote = match self.peek() {
            Some(c @ ('"' | '\'')) => c,
            _ => return self.fail("expected a string"),
        };
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let Some(len) = rest.find([quote, '\\']) else {
                return self.fail("string has no end");
            };
            out.push_str(&rest[..len]);
            self.at += len + 1;
            if rest[len..].starts_with(quote) {
                return Ok(out);
            }
            self.escape(&mut out)?;
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<()> {
        let Some(c) = self.rest().chars().next() else {
            return self.fail("string has no end");
        };
        self.at += c.len_utf8();
        out.push(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '0' => '\0',
            'u' => {
                let mut unit = self.unit()?;
                if (0xD800..0xDC00).contains(&unit) && self.rest().starts_with("\\u") {
                    self.at += 2;
                    let low = self.unit()?;
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
                }
                char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            c => c,
        });
        Ok(())
    }

    fn unit(&mut self) -> Result<u32> {
        let digits = self.rest().get(..4).unwrap_or("");
        match u32::from_str_radix(digits, 16) {
            Ok(unit) if digits.len() == 4 => {
                self.at += 4;
                Ok(unit)
            }
            _ => self.fail("expected four hexadecimal digits"),
        }
    }

    /// Parses the fields of an object after its `{`, and its `}`.
    fn fields(&mut self, out: &mut DocWriter<'_>) -> Result<()> {
        loop {
            if self.accept('}') {
                return Ok(());
            }
            let key = self.key()?;
            self.value(out.slot(&key))?;
            if !self.accept(',') {
                return self.expect('}');
            }
        }
    }

    fn items(&mut self, out: &mut ArrayWriter<'_>) -> Result<()> {
        loop {
            if self.accept(']') {
                return Ok(());
            }
            self.value(out.slot())?;
            if !self.accept(',') {
                return self.expect(']');
            }
        }
    }

    fn value(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        self.depth += 1;
        if self.depth > crate::DEPTH_MAX {
            return self.fail("nesting is too deep");
        }
        let done = match self.peek() {
            Some('{') => self.object(slot),
            Some('[') => {
                self.at += 1;
                slot.array(|w| self.items(w))
            }
            Some('"' | '\'') => self.string().map(|s| slot.put(s.as_str())),
            Some('/') => self.regex(slot),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(slot),
            Some(_) => self.name(slot),
            None => self.fail("expected a value"),
        };
        self.depth -= 1;
        done
    }

    fn object(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        self.expect('{')?;
        let start = self.at;
        if self.peek() != Some('}') {
            let key = self.key()?;
            if TAGS.contains(&key.as_str()) {
                self.tagged(&key, slot)?;
                self.accept(',');
                return self.expect('}');
            }
            self.at = start;
        }
        slot.doc(|w| self.fields(w))
    }

    /// Parses any value and returns it owned.
    fn owned(&mut self) -> Result<ValueBuf> {
        let mut bytes = Vec::new();
        let mut writer = DocWriter::new(&mut bytes);
        self.value(writer.slot(""))?;
        writer.finish();
        let doc = DocBuf::from_bytes(bytes).map_err(|error| error.to_string())?;
        Ok(ValueBuf::new(doc.get("")))
    }

    /// Parses the value of `tag`, the first name of an object.
    fn tagged(&mut self, tag: &str, slot: ValueSlot<'_>) -> Result<()> {
        let body = self.owned()?;
        let value = body.value();
        let text = value.as_str();
        let field = |name: &str| value.as_doc().map_or(Value::Missing, |d| d.get(name));
        match (tag, text) {
            ("$oid", Some(s)) => self.object_id(s, slot)?,
            ("$symbol", Some(s)) => slot.put(Value::Symbol(s)),
            ("$numberInt", Some(s)) => slot.put(Value::Int32(self.read(s)?)),
            ("$numberLong", Some(s)) => slot.put(Value::Int64(self.read(s)?)),
            ("$numberDouble", Some(s)) => slot.put(Value::Double(self.read(s)?)),
            ("$numberDecimal", Some(s)) => self.decimal(s, slot)?,
            ("$uuid", Some(s)) => self.uuid(s, slot)?,
            ("$date", Some(s)) => match date::parse_iso(s) {
                Some(ms) => slot.put(Value::DateTime(ms)),
                None => return self.fail("bad date"),
            },
            ("$date", None) => match crate::number::as_i64_exact(value) {
                Some(ms) => slot.put(Value::DateTime(ms)),
                None => return self.fail("bad date"),
            },
            ("$binary", Some(s)) => {
                self.expect(',')?;
                self.key()?;
                let subtype = self.owned()?;
                self.binary(s, subtype.value(), slot)?;
            }
            ("$binary", None) => {
                let base64 = field("base64").as_str().unwrap_or("!");
                self.binary(base64, field("subType"), slot)?;
            }
            ("$timestamp", _) => self.timestamp(field("t"), field("i"), slot)?,
            ("$regularExpression", _) => {
                let pattern = field("pattern").as_str().unwrap_or("");
                put_regex(pattern, field("options").as_str().unwrap_or(""), slot);
            }
            ("$dbPointer", _) => match (field("$ref"), field("$id")) {
                (Value::String(ns), Value::ObjectId(id)) => put_pointer(ns, id, slot),
                _ => return self.fail("bad $dbPointer"),
            },
            ("$code", Some(code)) => {
                if !self.accept(',') {
                    slot.put(Value::Code(code));
                    return Ok(());
                }
                self.key()?;
                let scope = self.owned()?;
                put_code(code, scope.value().as_doc().unwrap_or_default(), slot);
            }
            ("$minKey", _) => slot.put(Value::MinKey),
            ("$maxKey", _) => slot.put(Value::MaxKey),
            ("$undefined", _) => slot.put(Value::Undefined),
            _ => return self.fail(&format!("bad value for {tag}")),
        }
        Ok(())
    }

    fn read<T: std::str::FromStr>(&self, text: &str) -> Result<T> {
        text.trim().parse().or_else(|_| self.fail(&format!("bad number '{text}'")))
    }

    fn object_id(&self, text: &str, slot: ValueSlot<'_>) -> Result<()> {
        match oid::parse(text) {
            Some(id) => slot.put(Value::ObjectId(&id)),
            None => return self.fail("bad ObjectId"),
        }
        Ok(())
    }

    fn decimal(&self, text: &str, slot: ValueSlot<'_>) -> Result<()> {
        match Decimal128::parse(text) {
            Some(n) => slot.put(Value::Decimal128(n)),
            None => return self.fail("bad decimal"),
        }
        Ok(())
    }

    fn uuid(&self, text: &str, slot: ValueSlot<'_>) -> Result<()> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        match decode_hex(&digits) {
            Some(bytes) if bytes.len() == 16 => {
                slot.put(Value::Binary(crate::Binary { subtype: 4, bytes: &bytes }));
            }
            _ => return self.fail("bad UUID"),
        }
        Ok(())
    }

    fn binary(&self, base64: &str, subtype: Value<'_>, slot: ValueSlot<'_>) -> Result<()> {
        let subtype = match subtype {
            Value::String(s) => u8::from_str_radix(s, 16).ok(),
            other => crate::number::as_i64_exact(other).and_then(|n| u8::try_from(n).ok()),
        };
        match (base64::decode(base64), subtype) {
            (Some(bytes), Some(subtype)) => {
                slot.put(Value::Binary(crate::Binary { subtype, bytes: &bytes }));
            }
            _ => return self.fail("bad binary data"),
        }
        Ok(())
    }

    fn timestamp(&self, t: Value<'_>, i: Value<'_>, slot: ValueSlot<'_>) -> Result<()> {
        let part = |v| crate::number::as_i64_exact(v).and_then(|n| u32::try_from(n).ok());
        match (part(t), part(i)) {
            (Some(t), Some(i)) => slot.put(Value::Timestamp(u64::from(t) << 32 | u64::from(i))),
            _ => return self.fail("bad timestamp"),
        }
        Ok(())
    }

    fn regex(&mut self, slot: ValueSlot<'_>) -> Result<()> {
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

    fn number(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        let rest = self.rest();
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let text = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        let unsigned = text.trim_start_matches(['-', '+']);
        if unsigned.is_empty() || !text.contains("Infinity") && unsigned.starts_with(['i', 'n']) {
            return self.fail("bad number");
        }
        if unsigned.bytes().all(|b| b.is_ascii_digit()) {
            match (text.parse::<i32>(), text.parse::<i64>()) {
                (Ok(n), _) => slot.put(n),
                (_, Ok(n)) => slot.put(n),
                _ => slot.put(self.read::<f64>(text)?),
            }
        } else {
            slot.put(self.read::<f64>(text)?);
        }
        self.at += text.len();
        Ok(())
    }

    /// Parses a word: a constant or a call such as `NumberLong(5)`.
    fn name(&mut self, slot: ValueSlot<'_>) -> Result<()> {
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

fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|t| t.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect()
}

fn put_regex(pattern: &str, options: &str, slot: ValueSlot<'_>) {
    if let Some(regex) = regex(&pattern.replace('\0', ""), &options.replace('\0', "")) {
        slot.put(regex.value());
    }
}

/// Builds a regular expression with sorted options; none if a text contains a zero byte.
pub fn regex(pattern: &str, options: &str) -> Option<ValueBuf> {
    let mut flags: Vec<char> = options.chars().collect();
    flags.sort_unstable();
    let flags: String = flags.into_iter().collect();
    let bytes = format!("{pattern}\0{flags}\0");
    crate::Regex::from_bytes(bytes.as_bytes()).map(|regex| Value::Regex(regex).into())
}

fn put_pointer(namespace: &str, id: &[u8; 12], slot: ValueSlot<'_>) {
    slot.put(pointer(namespace, id).value());
}

/// Builds a DBPointer.
pub fn pointer(namespace: &str, id: &[u8; 12]) -> ValueBuf {
    let mut bytes = (namespace.len() as i32 + 1).to_le_bytes().to_vec();
    bytes.extend_from_slice(namespace.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(id);
    Value::DbPointer(crate::DbPointer(&bytes)).into()
}

fn put_code(code: &str, scope: crate::Doc<'_>, slot: ValueSlot<'_>) {
    slot.put(code_with_scope(code, scope).value());
}

/// Builds JavaScript code with a scope.
pub fn code_with_scope(code: &str, scope: crate::Doc<'_>) -> ValueBuf {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&(code.len() as i32 + 1).to_le_bytes());
    bytes.extend_from_slice(code.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(scope.as_bytes());
    let len = bytes.len() as i32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    Value::CodeWithScope(crate::CodeWithScope(&bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
