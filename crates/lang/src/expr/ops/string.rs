//! String operators: concatenation, splitting, searching, case, lengths.
use super::array::bound;
use super::prelude::*;

pub(super) static OPS: &[Operator] = &[
    row("$concat", Args::Any, concat),
    row("$indexOfBytes", Args::Between(2, 4), index_of_bytes),
    row("$indexOfCP", Args::Between(2, 4), index_of_code_points),
    row("$split", Args::Exactly(2), split),
    row("$strLenBytes", Args::Exactly(1), |_, args| {
        Ok(Value::Int32(length_of("$strLenBytes", 34473, args[0])?.len() as i32))
    }),
    row("$strLenCP", Args::Exactly(1), |_, args| {
        Ok(Value::Int32(length_of("$strLenCP", 34471, args[0])?.chars().count() as i32))
    }),
    row("$strcasecmp", Args::Exactly(2), compare_without_case),
    row("$toLower", Args::Exactly(1), |cx, args| {
        let text = cx.text_mut(coerce(cx, args[0])?)?;
        text.make_ascii_lowercase();
        Ok(Value::String(text))
    }),
    row("$toUpper", Args::Exactly(1), |cx, args| {
        let text = cx.text_mut(coerce(cx, args[0])?)?;
        text.make_ascii_uppercase();
        Ok(Value::String(text))
    }),
];

/// The text of a value for the oldest string operators: null gives "", numbers and dates are printed.
pub(super) fn coerce<'a>(cx: &Eval<'a>, value: Value<'a>) -> Result<&'a str> {
    Ok(match value {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => text,
        Value::Missing | Value::Null | Value::Undefined => "",
        Value::Int32(_) | Value::Int64(_) | Value::Decimal128(_) => {
            cx.arena.alloc_str(&value.to_string())
        }
        Value::Double(n) => cx.arena.alloc_str(&crate::expr::print::general(n, 16)),
        Value::DateTime(ms) => cx.arena.alloc_str(&crate::time::iso_text(ms)?),
        Value::Timestamp(stamp) => cx.arena.alloc_str(&crate::time::timestamp_text(stamp)),
        other => bail!(
            Code::Location(16007),
            "can't convert from BSON type {} to String",
            type_name(other)
        ),
    })
}

fn concat<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut bytes = 0;
    for arg in args {
        match *arg {
            Value::String(part) => bytes += part.len(),
            value if value.is_nullish() => return Ok(Value::Null),
            other => bail!(
                Code::Location(16702),
                "$concat only supports strings, not {}",
                type_name(other)
            ),
        }
    }
    check_text(bytes)?;
    cx.check_value_memory(bytes)?;
    let mut text = bumpalo::collections::String::with_capacity_in(bytes, cx.arena);
    args.iter().filter_map(Value::as_str).for_each(|part| text.push_str(part));
    Ok(Value::String(text.into_bump_str()))
}

fn length_of<'a>(name: &str, code: i32, value: Value<'a>) -> Result<&'a str> {
    match value {
        Value::String(text) => Ok(text),
        other => bail!(
            Code::Location(code),
            "{name} requires a string argument, found: {}",
            type_name(other)
        ),
    }
}

/// The text to search in and the text to search for; none if the former is null.
fn searched<'a>(
    name: &str,
    codes: [i32; 2],
    args: &[Value<'a>],
) -> Result<Option<(&'a str, &'a str)>> {
    let text = match args[0] {
        Value::String(text) => text,
        value if value.is_nullish() => return Ok(None),
        other => bail!(
            Code::Location(codes[0]),
            "{name} requires a string as the first argument, found: {}",
            type_name(other)
        ),
    };
    match args[1] {
        Value::String(token) => Ok(Some((text, token))),
        other => bail!(
            Code::Location(codes[1]),
            "{name} requires a string as the second argument, found: {}",
            type_name(other)
        ),
    }
}

fn index_of_bytes<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Some((text, token)) = searched("$indexOfBytes", [40091, 40092], args)? else {
        return Ok(Value::Null);
    };
    let start = bound("$indexOfBytes", "starting", args.get(2), 0)?;
    let end = bound("$indexOfBytes", "ending", args.get(3), text.len())?.min(text.len());
    let (text, token) = (text.as_bytes(), token.as_bytes());
    let part = text.get(start..end);
    let found = part.and_then(|part| find(part, token));
    Ok(Value::Int32(found.map_or(-1, |at| (start + at) as i32)))
}

fn find(text: &[u8], token: &[u8]) -> Option<usize> {
    if token.is_empty() {
        return Some(0);
    }
    text.windows(token.len()).position(|part| part == token)
}

fn index_of_code_points<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Some((text, token)) = searched("$indexOfCP", [40093, 40094], args)? else {
        return Ok(Value::Null);
    };
    let start = bound("$indexOfCP", "starting", args.get(2), 0)?;
    let end = bound("$indexOfCP", "ending", args.get(3), usize::MAX)?;
    // The loop below finds an empty text at every character, so this case is separate: an empty text in an empty text
    // is found at position 0. Unlike in `$indexOfBytes`, an empty text is not found after the last character.
    if text.is_empty() && token.is_empty() {
        return Ok(Value::Int32(0));
    }
    for (index, (at, _)) in text.char_indices().enumerate() {
        if index >= end {
            break;
        }
        if index >= start && text[at..].starts_with(token) {
            let behind = index + token.chars().count();
            return Ok(Value::Int32(if behind <= end { index as i32 } else { -1 }));
        }
    }
    Ok(Value::Int32(-1))
}

fn split<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    if args.iter().any(Value::is_nullish) {
        return Ok(Value::Null);
    }
    let mut texts = [""; 2];
    for (at, which) in ["first", "second"].into_iter().enumerate() {
        match args[at] {
            Value::String(text) => texts[at] = text,
            other => bail!(
                Code::Location(40085 + at as i32),
                "$split requires an expression that evaluates to a string as a {which} argument, \
                 found: {}",
                type_name(other)
            ),
        }
    }
    let [text, separator] = texts;
    if separator.is_empty() {
        bail!(Code::Location(40087), "$split requires a non-empty separator");
    }
    cx.array(|out| {
        text.split(separator).try_for_each(|part| {
            cx.vars.step()?;
            out.push(part);
            cx.check_written(out.len())
        })
    })
}

fn compare_without_case<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let lower = |text: &'a str| text.bytes().map(|b| b.to_ascii_lowercase());
    let order = lower(coerce(cx, args[0])?).cmp(lower(coerce(cx, args[1])?));
    Ok(Value::Int32(order as i32))
}
