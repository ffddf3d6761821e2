//! Plain JSON (RFC 8259), as `$convert` reads and prints it: only objects, arrays, strings, numbers, true, false,
//! null.
//!
//! `{"$oid": "..."}` stays a document; `$deserializeEJSON` converts such tags.
use super::*;
use crate::expr::print;
use nagi_bson::json::{JsonWriter, Spacing};
use nagi_bson::{Doc, DocBuf, json};

/// The maximal number of bytes that one byte of text becomes, with the growing buffer: an element of `[1,1,...]` has
/// two characters of text and becomes an index and an int32.
const JSON_GROWTH: usize = 12;

/// Parses a text that consists of one object or one array.
pub(super) fn read<'a>(cx: &Eval<'a>, text: &str, object: bool) -> Result<Value<'a>> {
    cx.check_work(JSON_GROWTH * text.len())?;
    let bracket = if object { '{' } else { '[' };
    let mut done = Ok(());
    let doc = DocBuf::build(|out| done = json::parse_plain(text, bracket, out.slot("v")));
    match done {
        Ok(()) => Ok(Doc::trusted(cx.bytes(doc.as_bytes())?).get("v")),
        Err(problem) => Err(Error::new(
            Code::CONVERSION_FAILURE,
            format!("Failed to parse JSON in $convert with no onError value: {problem}"),
        )),
    }
}

/// A document or an array as JSON; types that JSON has not are their own texts.
pub(super) fn print(cx: &Eval<'_>, value: Value<'_>) -> Result<String> {
    let mut out = String::new();
    append(cx, &mut JsonWriter::new(&mut out, Spacing::Compact), value)?;
    Ok(out)
}

fn append(cx: &Eval<'_>, out: &mut JsonWriter<'_>, value: Value<'_>) -> Result<()> {
    match value {
        Value::Doc(doc) => out.object(|out| -> Result<()> {
            for element in doc.iter() {
                append(cx, out.key(element.name()), element.value())?;
                cx.check_written(out.len())?;
            }
            Ok(())
        })?,
        Value::Array(items) => out.array(|out| -> Result<()> {
            for item in items.iter() {
                append(cx, out, item)?;
                cx.check_written(out.len())?;
            }
            Ok(())
        })?,
        Value::Missing | Value::Null | Value::Undefined => out.null(),
        Value::Bool(b) => out.literal(b),
        Value::Int32(n) => out.literal(n),
        Value::Int64(n) => out.literal(n),
        Value::Double(n) if n.is_finite() => out.literal(print::double(n)),
        value => {
            let arena = bumpalo::Bump::new();
            let vars = crate::expr::Vars::EMPTY;
            let cx = Eval::new(Doc::EMPTY, &vars, &arena, 0);
            let text = texts::to_string(&cx, value, How::format("auto"))?;
            out.string(text.as_str().unwrap_or(""));
        }
    }
    Ok(())
}
