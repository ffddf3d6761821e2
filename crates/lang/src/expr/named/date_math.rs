//! `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`: date arithmetic in calendar units.
use super::date_parts::{to_date, zone};
use super::prelude::*;
use crate::time::{self, Unit, Weekday};

pub(super) static OPS: &[Named] = &[
    Named { name: "$dateAdd", eval: |given| date_add(given, 1), ..ADD },
    Named {
        name: "$dateDiff",
        params: &[
            ("startDate", Some(5166303)),
            ("endDate", Some(5166304)),
            ("unit", Some(5166305)),
            ("timezone", None),
            ("startOfWeek", None),
        ],
        not_object: 5166301,
        unknown: 5166302,
        short: None,
        eval: date_diff,
    },
    Named { name: "$dateSubtract", eval: |given| date_add(given, -1), ..ADD },
    Named {
        name: "$dateTrunc",
        params: &[
            ("date", Some(5439009)),
            ("unit", Some(5439010)),
            ("binSize", None),
            ("timezone", None),
            ("startOfWeek", None),
        ],
        not_object: 5439007,
        unknown: 5439008,
        short: None,
        eval: date_trunc,
    },
];

const ADD: Named = Named {
    name: "",
    params: &[
        ("startDate", Some(5166402)),
        ("unit", Some(5166402)),
        ("amount", Some(5166402)),
        ("timezone", None),
    ],
    not_object: 5166400,
    unknown: 5166401,
    short: None,
    eval: |given| date_add(given, 1),
};

/// Converts a date argument; `code` is the error for other types.
fn date(given: &Given<'_, '_>, value: Value<'_>, param: &str, code: i32) -> Result<i64> {
    to_date(value).map_err(|_| {
        err!(
            Code::Location(code),
            "{} requires '{param}' to be a date, but got {}",
            given.name,
            type_name(value)
        )
    })
}

fn unit(given: &Given<'_, '_>, value: Value<'_>, code: i32) -> Result<Unit> {
    let Value::String(name) = value else {
        bail!(
            Code::Location(code),
            "{} requires 'unit' to be a string, but got {}",
            given.name,
            type_name(value)
        );
    };
    match Unit::parse(name) {
        Some(unit) => Ok(unit),
        None => bail!(
            Code::FAILED_TO_PARSE,
            "{} parameter 'unit' value cannot be recognized as a time unit: {name}",
            given.name
        ),
    }
}

/// The first day of a week, Sunday by default; none if the argument is null.
fn first_day(given: &Given<'_, '_>, index: usize, unit: Unit) -> Result<Option<Weekday>> {
    if !given.has(index) || unit != Unit::Week {
        return Ok(Some(Weekday(7)));
    }
    match given.value(index)? {
        Value::String(name) => match Weekday::parse(name) {
            Some(day) => Ok(Some(day)),
            None => bail!(
                Code::Location(5439016),
                "{} parameter 'startOfWeek' value cannot be recognized as a day of a week: {name}",
                given.name
            ),
        },
        value if value.is_nullish() => Ok(None),
        other => bail!(
            Code::Location(5439015),
            "{} requires 'startOfWeek' to be a string, but got {}",
            given.name,
            type_name(other)
        ),
    }
}

fn date_add<'a>(given: &Given<'a, '_>, sign: i64) -> Result<Value<'a>> {
    let (start, unit_value, amount) = (given.value(0)?, given.value(1)?, given.value(2)?);
    if start.is_nullish() || unit_value.is_nullish() || amount.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(zone) = zone(given, 3)? else {
        return Ok(Value::Null);
    };
    let start = date(given, start, "startDate", 5166403)?;
    let unit = unit(given, unit_value, 5166404)?;
    let Some(amount) = number::as_i64_exact(amount) else {
        bail!(Code::Location(5166405), "{} expects integer amount of time units", given.name);
    };
    let moved = amount.checked_mul(sign).and_then(|amount| time::add(start, unit, amount, &zone));
    match moved {
        Some(ms) => Ok(Value::DateTime(ms)),
        None => bail!(Code::Location(5166406), "{} overflowed", given.name),
    }
}

fn date_diff<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let (start, end, unit_value) = (given.value(0)?, given.value(1)?, given.value(2)?);
    if start.is_nullish() || end.is_nullish() || unit_value.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(zone) = zone(given, 3)? else {
        return Ok(Value::Null);
    };
    let start = date(given, start, "startDate", 5166307)?;
    let end = date(given, end, "endDate", 5166307)?;
    let unit = unit(given, unit_value, 5166306)?;
    let Some(first) = first_day(given, 4, unit)? else {
        return Ok(Value::Null);
    };
    Ok(Value::Int64(time::diff(start, end, unit, &zone, first)?))
}

fn date_trunc<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let (at, unit_value) = (given.value(0)?, given.value(1)?);
    let size = if given.has(2) { given.value(2)? } else { Value::Int32(1) };
    if at.is_nullish() || unit_value.is_nullish() || size.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(zone) = zone(given, 3)? else {
        return Ok(Value::Null);
    };
    let at = date(given, at, "date", 5439012)?;
    let unit = unit(given, unit_value, 5439013)?;
    let Some(first) = first_day(given, 4, unit)? else {
        return Ok(Value::Null);
    };
    let Some(size) = number::as_i64_exact(size) else {
        bail!(
            Code::Location(5439017),
            "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{size}' of type \
             {}",
            type_name(size)
        );
    };
    if size <= 0 {
        bail!(
            Code::Location(5439018),
            "$dateTrunc requires 'binSize' to be greater than 0, but got value {size}"
        );
    }
    Ok(Value::DateTime(time::truncate(at, unit, size, &zone, first)?))
}
