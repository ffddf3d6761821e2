//! `$trim`, `$ltrim`, `$rtrim`: remove white space or the given characters from the ends of a string.
use super::prelude::*;

pub(super) static OPS: &[Named] = &[
    Named { name: "$ltrim", eval: |given| trim(given, true, false), ..TRIM },
    Named { name: "$rtrim", eval: |given| trim(given, false, true), ..TRIM },
    Named { name: "$trim", ..TRIM },
];

const TRIM: Named = Named {
    name: "$trim",
    params: &[("input", Some(50695)), ("chars", None)],
    not_object: 50696,
    unknown: 50694,
    short: None,
    eval: |given| trim(given, true, true),
};

/// The white space characters of MongoDB; NUL is one of them.
fn is_space(c: char) -> bool {
    matches!(c, '\0' | '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}')
}

fn trim<'a>(given: &Given<'a, '_>, left: bool, right: bool) -> Result<Value<'a>> {
    let input = given.value(0)?;
    if input.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::String(mut text) = input else {
        bail!(
            Code::Location(50699),
            "{} requires its input to be a string, got {input} (of type {}) instead.",
            given.name,
            type_name(input)
        );
    };
    let chars = match given.value(1)? {
        _ if !given.has(1) => None,
        Value::String(chars) => Some(chars),
        value if value.is_nullish() => return Ok(Value::Null),
        other => bail!(
            Code::Location(50700),
            "{} requires 'chars' to be a string, got {other} (of type {}) instead.",
            given.name,
            type_name(other)
        ),
    };
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    if left {
        text = text.trim_start_matches(goes);
    }
    if right {
        text = text.trim_end_matches(goes);
    }
    Ok(Value::String(text))
}
