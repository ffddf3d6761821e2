//! Extended JSON v2: objects that are values of BSON's other types, and the parts that shell calls share with them.

use super::made::{put_code, put_pointer, put_regex};
use super::reader::{Reader, Result};
use super::{base64, date};
use crate::{Decimal128, Value, ValueSlot, oid};

/// Names that make an object a value of Extended JSON when they come first.
pub(super) const TAGS: &[&str] = &[
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

impl Reader<'_> {
    /// The value behind the name `tag`, which began an object.
    pub(super) fn tagged(&mut self, tag: &str, slot: ValueSlot<'_>) -> Result<()> {
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

    pub(super) fn read<T: std::str::FromStr>(&self, text: &str) -> Result<T> {
        text.trim().parse().or_else(|_| self.fail(&format!("bad number '{text}'")))
    }

    pub(super) fn object_id(&self, text: &str, slot: ValueSlot<'_>) -> Result<()> {
        match oid::parse(text) {
            Some(id) => slot.put(Value::ObjectId(&id)),
            None => return self.fail("bad ObjectId"),
        }
        Ok(())
    }

    pub(super) fn decimal(&self, text: &str, slot: ValueSlot<'_>) -> Result<()> {
        match Decimal128::parse(text) {
            Some(n) => slot.put(Value::Decimal128(n)),
            None => return self.fail("bad decimal"),
        }
        Ok(())
    }

    pub(super) fn uuid(&self, text: &str, slot: ValueSlot<'_>) -> Result<()> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        match decode_hex(&digits) {
            Some(bytes) if bytes.len() == 16 => {
                slot.put(Value::Binary(crate::Binary { subtype: 4, bytes: &bytes }));
            }
            _ => return self.fail("bad UUID"),
        }
        Ok(())
    }

    pub(super) fn binary(
        &self,
        base64: &str,
        subtype: Value<'_>,
        slot: ValueSlot<'_>,
    ) -> Result<()> {
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

    pub(super) fn timestamp(&self, t: Value<'_>, i: Value<'_>, slot: ValueSlot<'_>) -> Result<()> {
        let part = |v| crate::number::as_i64_exact(v).and_then(|n| u32::try_from(n).ok());
        match (part(t), part(i)) {
            (Some(t), Some(i)) => slot.put(Value::Timestamp(u64::from(t) << 32 | u64::from(i))),
            _ => return self.fail("bad timestamp"),
        }
        Ok(())
    }
}

pub(super) fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|t| t.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect()
}
