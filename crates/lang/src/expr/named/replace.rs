//! `$replaceOne`, `$replaceAll`: replace a string inside of a string.
use super::prelude::*;
use crate::expr::memory::check_text;

pub(super) static OPS: &[Named] = &[
    Named { name: "$replaceAll", eval: |given| replace(given, usize::MAX), ..REPLACE },
    Named { name: "$replaceOne", ..REPLACE },
];

const REPLACE: Named = Named {
    name: "$replaceOne",
    params: &[("input", Some(51749)), ("find", Some(51748)), ("replacement", Some(51747))],
    not_object: 51751,
    unknown: 51750,
    short: None,
    eval: |given| replace(given, 1),
};

fn replace<'a>(given: &Given<'a, '_>, count: usize) -> Result<Value<'a>> {
    let values = [given.value(0)?, given.value(1)?, given.value(2)?];
    let params = [("input", 51746), ("find", 51745), ("replacement", 51744)];
    let mut texts = [""; 3];
    for ((value, (param, code)), text) in values.iter().zip(params).zip(&mut texts) {
        match *value {
            Value::String(given) => *text = given,
            value if value.is_nullish() => {}
            other => bail!(
                Code::Location(code),
                "{} requires that '{param}' be a string, found: {other}",
                given.name
            ),
        }
    }
    if values.iter().any(Value::is_nullish) {
        return Ok(Value::Null);
    }
    let [input, find, replacement] = texts;
    let found = input.matches(find).take(count).count();
    let bytes = input.len() + found.saturating_mul(replacement.len());
    check_text(bytes)?;
    // The growing buffer may use twice the length, the arena uses it once.
    given.cx.check_value_memory(3 * bytes)?;
    given.cx.text(&input.replacen(find, replacement, count))
}
