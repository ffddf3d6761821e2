//! `$serializeEJSON` and `$deserializeEJSON`: conversions between values and their Extended JSON form, in which
//! `{$oid: "..."}` stands for an ObjectId. The Extended JSON is itself BSON, with fewer types.
use super::prelude::*;
use crate::time;
use nagi_bson::{Array, Binary, DEPTH_MAX, Doc, DocBuf, DocWriter, ValueSlot, json, text::Hex};

pub(super) static OPS: &[Named] = &[
    Named {
        name: "$deserializeEJSON",
        params: &[("input", Some(9)), ("onError", None)],
        not_object: 9,
        unknown: 9,
        short: None,
        eval: |given| or_on_error(given, 1, super::ejson_read::deserialize),
    },
    Named {
        name: "$serializeEJSON",
        params: &[("input", Some(9)), ("relaxed", None), ("onError", None)],
        not_object: 9,
        unknown: 9,
        short: None,
        eval: |given| or_on_error(given, 2, serialize),
    },
];

/// Calls `make`. If it fails to convert, the result is the value of the argument `on_error`.
fn or_on_error<'a>(
    given: &Given<'a, '_>,
    on_error: usize,
    make: fn(&Given<'a, '_>) -> Result<Value<'a>>,
) -> Result<Value<'a>> {
    match make(given) {
        Err(error) if error.code() == Code::CONVERSION_FAILURE && given.has(on_error) => {
            given.value(on_error)
        }
        result => result,
    }
}

/// Fails if a document at this depth would exceed the maximal nesting of BSON.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        bail!(
            Code::CONVERSION_FAILURE,
            "the result would be nested deeper than {DEPTH_MAX} levels"
        );
    }
    Ok(())
}

/// Builds a value through a slot and copies it to the arena.
pub(super) fn made<'a>(
    given: &Given<'a, '_>,
    write: impl FnOnce(ValueSlot<'_>) -> Result<()>,
) -> Result<Value<'a>> {
    let mut written = Ok(());
    let doc = DocBuf::build(|out| written = write(out.slot("v")));
    written?;
    Ok(Doc::trusted(given.cx.bytes(doc.as_bytes())?).get("v"))
}

fn serialize<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let relaxed = match given.value(1)? {
        Value::Bool(relaxed) => relaxed,
        value if value.is_nullish() => true,
        other => bail!(Code::BAD_VALUE, "Unexpected value for relaxed: {other}"),
    };
    let input = given.value(0)?;
    if let Value::Missing | Value::Null = input {
        return Ok(Value::Null);
    }
    made(given, |slot| put(slot, input, !relaxed, 1))
}

/// Writes a document at `depth`, element by element.
fn put_doc(slot: ValueSlot<'_>, doc: Doc<'_>, canonical: bool, depth: usize) -> Result<()> {
    check_depth(depth)?;
    slot.doc(|out| {
        doc.iter().try_for_each(|e| put(out.slot(e.name()), e.value(), canonical, depth + 1))
    })
}

fn put_array(slot: ValueSlot<'_>, items: Array<'_>, canonical: bool, depth: usize) -> Result<()> {
    check_depth(depth)?;
    slot.array(|out| items.iter().try_for_each(|item| put(out.slot(), item, canonical, depth + 1)))
}

/// Writes `{name: text}`.
fn tag(slot: ValueSlot<'_>, depth: usize, name: &str, text: &str) -> Result<()> {
    tagged(slot, depth, |out| out.put(name, text))
}

fn tagged(slot: ValueSlot<'_>, depth: usize, fill: impl FnOnce(&mut DocWriter<'_>)) -> Result<()> {
    check_depth(depth)?;
    slot.doc(fill);
    Ok(())
}

fn put(slot: ValueSlot<'_>, value: Value<'_>, canonical: bool, depth: usize) -> Result<()> {
    match value {
        Value::Doc(doc) => return put_doc(slot, doc, canonical, depth),
        Value::Array(items) => return put_array(slot, items, canonical, depth),
        Value::Int32(n) if canonical => return tag(slot, depth, "$numberInt", &n.to_string()),
        Value::Int64(n) if canonical => return tag(slot, depth, "$numberLong", &n.to_string()),
        Value::Double(n) if canonical || !n.is_finite() => {
            let text = json::shortest_double(n);
            return tag(slot, depth, "$numberDouble", text.strip_suffix(".0").unwrap_or(&text));
        }
        Value::Decimal128(n) => return tag(slot, depth, "$numberDecimal", &n.to_string()),
        Value::ObjectId(id) => return tag(slot, depth, "$oid", &Hex(id).to_string()),
        Value::Symbol(text) => return tag(slot, depth, "$symbol", text),
        Value::Code(text) => return tag(slot, depth, "$code", text),
        Value::Undefined => return tagged(slot, depth, |out| out.put("$undefined", true)),
        Value::MinKey => return tagged(slot, depth, |out| out.put("$minKey", 1)),
        Value::MaxKey => return tagged(slot, depth, |out| out.put("$maxKey", 1)),
        Value::Missing | Value::Null | Value::Bool(_) | Value::String(_) => slot.put(value),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) => slot.put(value),
        Value::DateTime(ms) => return put_date(slot, ms, canonical, depth),
        Value::CodeWithScope(code) => {
            check_depth(depth)?;
            return slot.doc(|out| {
                out.put("$code", code.code());
                put_doc(out.slot("$scope"), code.scope(), canonical, depth + 1)
            });
        }
        nested => {
            check_depth(depth + 1)?;
            slot.doc(|out| put_nested(out, nested));
        }
    }
    Ok(())
}

/// Writes the types whose Extended JSON is a document inside of the tag.
fn put_nested(out: &mut DocWriter<'_>, value: Value<'_>) {
    match value {
        Value::Timestamp(stamp) => out.doc("$timestamp", |out| {
            out.put("t", Value::Int64((stamp >> 32) as i64));
            out.put("i", Value::Int64((stamp & 0xFFFF_FFFF) as i64));
        }),
        Value::Binary(Binary { subtype, bytes }) => out.doc("$binary", |out| {
            let mut text = String::new();
            json::base64_encode(&mut text, bytes);
            out.put("base64", &*text);
            out.put("subType", &*format!("{subtype:02x}"));
        }),
        Value::Regex(regex) => out.doc("$regularExpression", |out| {
            out.put("pattern", regex.pattern());
            out.put("options", regex.options());
        }),
        Value::DbPointer(pointer) => out.doc("$dbPointer", |out| {
            out.put("$ref", pointer.namespace());
            out.doc("$id", |out| out.put("$oid", &*Hex(pointer.id()).to_string()));
        }),
        _ => {}
    }
}

/// Writes a date: relaxed from 1970 to 9999 as ISO text, otherwise as milliseconds.
fn put_date(slot: ValueSlot<'_>, ms: i64, canonical: bool, depth: usize) -> Result<()> {
    const YEAR_10000_MS: i64 = 253_402_300_800_000;
    if !canonical && (0..YEAR_10000_MS).contains(&ms) {
        return tag(slot, depth, "$date", &time::iso_text(ms)?);
    }
    check_depth(depth + 1)?;
    slot.doc(|out| out.doc("$date", |out| out.put("$numberLong", &*ms.to_string())));
    Ok(())
}
