//! `$getField`, `$setField`, `$unsetField`: access to fields whose names may contain dots and dollar signs.
use super::prelude::*;
use nagi_bson::{Doc, DocWriter};

pub(super) static OPS: &[Named] = &[
    Named {
        name: "$getField",
        params: &[("field", Some(3041702)), ("input", Some(3041703))],
        not_object: 3041701,
        unknown: 3041701,
        short: Some(short_get),
        eval: get_field,
    },
    Named {
        name: "$setField",
        params: &[("field", Some(4161102)), ("input", Some(4161109)), ("value", Some(4161103))],
        not_object: 4161100,
        unknown: 4161101,
        short: None,
        eval: |given| set_field(given, true),
    },
    Named {
        name: "$unsetField",
        params: &[("field", Some(4161102)), ("input", Some(4161109))],
        not_object: 4161100,
        unknown: 4161101,
        short: None,
        eval: |given| set_field(given, false),
    },
];

/// Parses `{$getField: "name"}`, which reads the current document.
fn short_get(_: &'static Named, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Option<Args>> {
    let named = match value {
        Value::Doc(doc) => doc.first().is_some_and(|e| !e.name().starts_with('$')),
        _ => false,
    };
    if named {
        return Ok(None);
    }
    let field = parse::operand(value, cx)?;
    Ok(Some(Box::new([Some(field), Some(cx.variable("CURRENT", None)?)])))
}

fn name<'a>(given: &Given<'a, '_>, code: i32) -> Result<&'a str> {
    match given.value(0)? {
        Value::String(name) => Ok(name),
        other => bail!(
            Code::Location(code),
            "{} requires 'field' to evaluate to type String, but got {}",
            given.name,
            type_name(other)
        ),
    }
}

fn get_field<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let name = name(given, 3041704)?;
    Ok(match given.value(1)? {
        Value::Doc(doc) => doc.get(name),
        Value::Null | Value::Undefined => Value::Null,
        _ => Value::Missing,
    })
}

fn set_field<'a>(given: &Given<'a, '_>, set: bool) -> Result<Value<'a>> {
    let name = name(given, 4161107)?;
    if name.contains('\0') {
        bail!(
            Code::Location(9534700),
            "{}: 'field' cannot contain an embedded null byte",
            given.name
        );
    }
    let input = match given.value(1)? {
        Value::Doc(doc) => doc,
        value if value.is_nullish() => return Ok(Value::Null),
        other => bail!(
            Code::Location(4161105),
            "{} requires 'input' to evaluate to type Object, but got {}",
            given.name,
            type_name(other)
        ),
    };
    let value = if set { given.value(2)? } else { Value::Missing };
    given.cx.doc(|out| {
        write(input, name, value, out);
        Ok(())
    })
}

/// Writes a document with the field set. An existing field keeps its position; a missing value removes it.
fn write(input: Doc<'_>, name: &str, value: Value<'_>, out: &mut DocWriter<'_>) {
    let mut found = false;
    for element in input {
        if element.name() == name {
            found = true;
            out.put(name, value);
        } else {
            out.put(element.name(), element.value());
        }
    }
    if !found {
        out.put(name, value);
    }
}
