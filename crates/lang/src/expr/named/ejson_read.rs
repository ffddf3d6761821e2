//! `$deserializeEJSON`: converts Extended JSON in BSON to the types that it stands for.
//!
//! A document stands for another type if its first field name is a tag. It must then have exactly the form that the
//! tag requires: `{$numberLong: 1}` is an error and not a document with an unusual name.
use super::ejson::{check_depth, made};
use super::prelude::*;
use nagi_bson::{Binary, Decimal128, Doc, DocBuf, ValueBuf, ValueSlot, json, oid};

pub(super) fn deserialize<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    match given.value(0)? {
        Value::Missing | Value::Null => Ok(Value::Null),
        input => made(given, |slot| put(slot, input, 1)),
    }
}

fn put(slot: ValueSlot<'_>, value: Value<'_>, depth: usize) -> Result<()> {
    match value {
        Value::Doc(doc) => {
            check_depth(depth)?;
            match doc.first() {
                Some(first) if first.name().starts_with('$') => match tagged(doc)? {
                    Some(value) => slot.put(value.value()),
                    None => put_fields(slot, doc, depth)?,
                },
                _ => put_fields(slot, doc, depth)?,
            }
        }
        Value::Array(items) => {
            check_depth(depth)?;
            return slot
                .array(|out| items.iter().try_for_each(|item| put(out.slot(), item, depth + 1)));
        }
        value => slot.put(value),
    }
    Ok(())
}

fn put_fields(slot: ValueSlot<'_>, doc: Doc<'_>, depth: usize) -> Result<()> {
    slot.doc(|out| doc.iter().try_for_each(|e| put(out.slot(e.name()), e.value(), depth + 1)))
}

/// The value of a tagged document; none if its first name is not a tag.
fn tagged(doc: Doc<'_>) -> Result<Option<ValueBuf>> {
    let Some(first) = doc.first() else { return Ok(None) };
    let (tag, body) = (first.name(), first.value());
    let bad = || err!(Code::CONVERSION_FAILURE, "{doc} is not a valid value of {tag}");
    let fields = if tag == "$code" { 1..3 } else { 1..2 };
    let known = match tag {
        "$code" => code(doc, body),
        "$timestamp" | "$regularExpression" | "$binary" | "$dbPointer" => nested(tag, body),
        "$date" => date(body),
        "$undefined" => (body == Value::Bool(true)).then(|| Value::Undefined.into()),
        "$minKey" => is_one(body).then(|| Value::MinKey.into()),
        "$maxKey" => is_one(body).then(|| Value::MaxKey.into()),
        "$oid" | "$symbol" | "$numberInt" | "$numberLong" | "$numberDouble" | "$numberDecimal"
        | "$uuid" => body.as_str().and_then(|text| from_text(tag, text)),
        _ => return Ok(None),
    };
    match known {
        Some(value) if fields.contains(&doc.count()) => Ok(Some(value)),
        _ => Err(bad()),
    }
}

fn is_one(value: Value<'_>) -> bool {
    number::as_i64_exact(value) == Some(1)
}

fn from_text(tag: &str, text: &str) -> Option<ValueBuf> {
    Some(match tag {
        "$oid" => Value::ObjectId(&oid::parse(text)?).into(),
        "$symbol" => Value::Symbol(text).into(),
        "$numberInt" => Value::Int32(text.parse().ok()?).into(),
        "$numberLong" => Value::Int64(text.parse().ok()?).into(),
        "$numberDouble" => Value::Double(text.parse().ok()?).into(),
        "$numberDecimal" => Value::Decimal128(Decimal128::parse(text)?).into(),
        _ => {
            let bytes = super::convert::uuid_bytes(text)?;
            Value::Binary(Binary { subtype: 4, bytes: &bytes }).into()
        }
    })
}

fn date(body: Value<'_>) -> Option<ValueBuf> {
    let ms = match body {
        Value::String(text) => json::parse_iso(text)?,
        Value::Doc(doc) => match tagged(doc).ok()??.value() {
            Value::Int64(ms) => ms,
            _ => return None,
        },
        value => number::as_i64_exact(value)?,
    };
    Some(Value::DateTime(ms).into())
}

fn code(doc: Doc<'_>, body: Value<'_>) -> Option<ValueBuf> {
    let code = body.as_str()?;
    let mut rest = doc.iter().skip(1);
    let Some(scope) = rest.next() else {
        return Some(Value::Code(code).into());
    };
    let ("$scope", Value::Doc(scope)) = (scope.name(), scope.value()) else { return None };
    let mut read = Ok(());
    let scope = DocBuf::build(|out| {
        read = scope.iter().try_for_each(|e| put(out.slot(e.name()), e.value(), 2));
    });
    read.ok()?;
    Some(json::code_with_scope(code, scope.as_doc()))
}

/// Reads the tags whose value is a document.
fn nested(tag: &str, body: Value<'_>) -> Option<ValueBuf> {
    let body = body.as_doc()?;
    let (first, second) = match tag {
        "$timestamp" => (body.get("t"), body.get("i")),
        "$regularExpression" => (body.get("pattern"), body.get("options")),
        "$binary" => (body.get("base64"), body.get("subType")),
        _ => (body.get("$ref"), body.get("$id")),
    };
    if body.count() != 2 {
        return None;
    }
    let part = |value: Value<'_>| u32::try_from(number::as_i64_exact(plain(value)?.value())?).ok();
    Some(match tag {
        "$timestamp" => {
            let (seconds, increment) = (part(first)?, part(second)?);
            Value::Timestamp(u64::from(seconds) << 32 | u64::from(increment)).into()
        }
        "$regularExpression" => json::regex(first.as_str()?, second.as_str()?)?,
        "$binary" => {
            let bytes = json::base64_decode(first.as_str()?)?;
            let subtype = u8::from_str_radix(second.as_str()?, 16).ok()?;
            Value::Binary(Binary { subtype, bytes: &bytes }).into()
        }
        _ => {
            let id = tagged(second.as_doc()?).ok()??;
            match id.value() {
                Value::ObjectId(id) => json::pointer(first.as_str()?, id),
                _ => return None,
            }
        }
    })
}

/// Reads a number, which may be tagged.
fn plain(value: Value<'_>) -> Option<ValueBuf> {
    match value {
        Value::Doc(doc) => tagged(doc).ok()?,
        value => Some(value.into()),
    }
}
