//! `$dateToString`, `$dateFromString`: conversions with a format.
use super::date_parts::{to_date, zone};
use super::prelude::*;
use crate::time::{self, Zone};

pub(super) static OPS: &[Named] = &[
    Named {
        name: "$dateFromString",
        params: &[
            ("dateString", Some(40542)),
            ("format", None),
            ("timezone", None),
            ("onNull", None),
            ("onError", None),
        ],
        not_object: 40540,
        unknown: 40541,
        short: None,
        eval: date_from_string,
    },
    Named {
        name: "$dateToString",
        params: &[("date", Some(18628)), ("format", None), ("timezone", None), ("onNull", None)],
        not_object: 18629,
        unknown: 18534,
        short: None,
        eval: date_to_string,
    },
];

/// The specifiers that `$dateToString` prints; [`READ`] has those that `$dateFromString` reads.
const PRINTED: &str = "dGHjLmMSuUVYzZwbB%";
/// The maximal growth of a specifier of two characters ("September"), doubled for the growing buffer.
const DATE_GROWTH_MAX: usize = 10;
const READ: &str = "dGHjLmMSuVYzZbB%";

/// A format argument; none if it is absent or null. An invalid format is an error even if the date is null.
fn format<'a>(given: &Given<'a, '_>, code: i32, allowed: &str) -> Result<Option<&'a str>> {
    match given.value(1)? {
        Value::String(format) => {
            time::check_format(format, allowed)?;
            Ok(Some(format))
        }
        value if value.is_nullish() => Ok(None),
        other => bail!(
            Code::Location(code),
            "{} requires that 'format' be a string, found: {} with value {other}",
            given.name,
            type_name(other)
        ),
    }
}

fn date_to_string<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let date = given.value(0)?;
    let format = format(given, 18533, PRINTED)?;
    let zone = zone(given, 2)?;
    if date.is_nullish() {
        return given.value_or_null(3);
    }
    let (Some(zone), true) = (zone, format.is_some() || !given.has(1)) else {
        return Ok(Value::Null);
    };
    let iso = match zone {
        Zone::Utc => "%Y-%m-%dT%H:%M:%S.%LZ",
        _ => "%Y-%m-%dT%H:%M:%S.%L",
    };
    let (date, format) = (to_date(date)?, format.unwrap_or(iso));
    given.cx.check_work(DATE_GROWTH_MAX * format.len())?;
    given.cx.text(&time::format(date, format, &zone)?)
}

fn date_from_string<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let text = given.value(0)?;
    let format = format(given, 40684, READ)?;
    let zone = zone(given, 2)?;
    if text.is_nullish() {
        return given.value_or_null(3);
    }
    let Value::String(text) = text else {
        return on_error(
            given,
            err!(
                Code::CONVERSION_FAILURE,
                "$dateFromString requires that 'dateString' be a string, found: {} with value {text}",
                type_name(text)
            ),
        );
    };
    let (Some(zone), true) = (zone, format.is_some() || !given.has(1)) else {
        return Ok(Value::Null);
    };
    // A zone in the text together with one in the argument is an error, so the parser must know if there is an
    // argument.
    let zone = given.has(2).then_some(&zone);
    let moment = match format {
        Some(format) => time::parse_with_format(text, format, zone),
        None => time::parse(text, zone),
    };
    match moment {
        Ok(ms) => Ok(Value::DateTime(ms)),
        Err(error) => on_error(given, error),
    }
}

fn on_error<'a>(given: &Given<'a, '_>, error: Error) -> Result<Value<'a>> {
    if given.has(4) && error.code() == Code::CONVERSION_FAILURE {
        return given.value(4);
    }
    Err(error)
}
