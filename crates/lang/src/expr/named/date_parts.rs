//! `$year`, `$month`, ...: one part of a date in a time zone. Also `$dateToParts` and `$dateFromParts`.
use super::prelude::*;
use crate::time::{Civil, Zone, iso_week_days};

/// A row for an operator of the forms `{$year: date}`, `{$year: [date]}`, `{$year: {date, timezone}}`.
const fn part(name: &'static str, eval: for<'a> fn(&Given<'a, '_>) -> Result<Value<'a>>) -> Named {
    Named {
        name,
        params: &[("date", Some(40539)), ("timezone", None)],
        not_object: 40536,
        unknown: 40535,
        short: Some(short_date),
        eval,
    }
}

macro_rules! part {
    ($name:literal, $of:expr) => {
        part($name, |given| {
            let of: fn(&Civil) -> i64 = $of;
            int_part(given, of)
        })
    };
}

pub(super) static OPS: &[Named] = &[
    Named {
        name: "$dateFromParts",
        params: &[
            ("year", None),
            ("month", None),
            ("day", None),
            ("isoWeekYear", None),
            ("isoWeek", None),
            ("isoDayOfWeek", None),
            ("hour", None),
            ("minute", None),
            ("second", None),
            ("millisecond", None),
            ("timezone", None),
        ],
        not_object: 40519,
        unknown: 40518,
        short: Some(check_from_parts),
        eval: date_from_parts,
    },
    Named {
        name: "$dateToParts",
        params: &[("date", Some(40522)), ("timezone", None), ("iso8601", None)],
        not_object: 40524,
        unknown: 40520,
        short: None,
        eval: date_to_parts,
    },
    part!("$dayOfMonth", |at| at.day),
    part!("$dayOfWeek", Civil::day_of_week),
    part!("$dayOfYear", Civil::day_of_year),
    part!("$hour", |at| at.hour),
    part!("$isoDayOfWeek", Civil::iso_day_of_week),
    part!("$isoWeek", |at| at.iso_week().1),
    part("$isoWeekYear", |given| {
        Ok(civil(given)?.map_or(Value::Null, |at| Value::Int64(at.iso_week().0)))
    }),
    part!("$millisecond", |at| at.millisecond),
    part!("$minute", |at| at.minute),
    part!("$month", |at| at.month),
    part!("$second", |at| at.second),
    part!("$week", Civil::week),
    part!("$year", |at| at.year),
];

/// Accepts the date alone, without an object of named arguments.
fn short_date(row: &'static Named, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Option<Args>> {
    let date = match value {
        Value::Doc(doc) if doc.first().is_some_and(|e| e.name().starts_with('$')) => value,
        Value::Doc(_) => return Ok(None),
        Value::Array(items) => {
            let count = items.count();
            if count != 1 {
                bail!(
                    Code::Location(40536),
                    "{} accepts exactly one argument if given an array, but was given {count}",
                    row.name
                );
            }
            items.get(0)
        }
        other => other,
    };
    Ok(Some(Box::new([Some(parse::operand(date, cx)?), None])))
}

/// The milliseconds of a date, a timestamp or an ObjectId; an error for other types.
pub(super) fn to_date(value: Value<'_>) -> Result<i64> {
    match value {
        Value::DateTime(ms) => Ok(ms),
        Value::Timestamp(stamp) => Ok((stamp >> 32) as i64 * 1000),
        Value::ObjectId(id) => Ok(object_id_ms(id)),
        other => {
            bail!(
                Code::Location(16006),
                "can't convert from BSON type {} to Date",
                type_name(other)
            )
        }
    }
}

/// The time in an ObjectId's first four bytes. They are read as a signed number, as in MongoDB.
pub(super) fn object_id_ms(id: &[u8; 12]) -> i64 {
    i64::from(i32::from_be_bytes([id[0], id[1], id[2], id[3]])) * 1000
}

/// A time zone argument: UTC if it is absent, none if it is null.
pub(super) fn zone(given: &Given<'_, '_>, index: usize) -> Result<Option<Zone>> {
    if !given.has(index) {
        return Ok(Some(Zone::Utc));
    }
    match given.value(index)? {
        Value::String(name) => named_zone(given, index, name).map(Some),
        value if value.is_nullish() => Ok(None),
        other => bail!(
            Code::Location(40517),
            "timezone must evaluate to a string, found {}",
            type_name(other)
        ),
    }
}

/// Parses the name of a zone, only once per plan if the argument is constant.
fn named_zone(given: &Given<'_, '_>, index: usize, name: &str) -> Result<Zone> {
    let make = || Zone::parse(name).map(Prepared::Zone);
    match given.prepared(given.is_constant(index), make)?.as_ref() {
        Prepared::Zone(zone) => Ok(zone.clone()),
        Prepared::Pattern(_) => Zone::parse(name),
    }
}

fn civil(given: &Given<'_, '_>) -> Result<Option<Civil>> {
    let date = given.value(0)?;
    if date.is_nullish() {
        return Ok(None);
    }
    let ms = to_date(date)?;
    if !given.has(1) {
        return Ok(Some(Civil::from_ms(ms)));
    }
    match given.value(1)? {
        Value::String(name) => Ok(Some(named_zone(given, 1, name)?.civil(ms))),
        value if value.is_nullish() => Ok(None),
        other => bail!(
            Code::Location(40533),
            "{} requires a string for the timezone argument, but was given a {} ({other})",
            given.name,
            type_name(other)
        ),
    }
}

fn int_part<'a>(given: &Given<'a, '_>, of: fn(&Civil) -> i64) -> Result<Value<'a>> {
    Ok(civil(given)?.map_or(Value::Null, |at| Value::Int32(of(&at) as i32)))
}

fn date_to_parts<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let date = given.value(0)?;
    let Some(zone) = zone(given, 1)? else {
        return Ok(Value::Null);
    };
    let iso = match given.value(2)? {
        Value::Bool(iso) => iso,
        _ if !given.has(2) => false,
        value if value.is_nullish() => return Ok(Value::Null),
        other => bail!(
            Code::Location(40521),
            "iso8601 must evaluate to a bool, found {}",
            type_name(other)
        ),
    };
    if date.is_nullish() {
        return Ok(Value::Null);
    }
    let at = zone.civil(to_date(date)?);
    given.cx.doc(|out| {
        let parts = if iso {
            let (year, week) = at.iso_week();
            [("isoWeekYear", year), ("isoWeek", week), ("isoDayOfWeek", at.iso_day_of_week())]
        } else {
            [("year", at.year), ("month", at.month), ("day", at.day)]
        };
        let clock = [
            ("hour", at.hour),
            ("minute", at.minute),
            ("second", at.second),
            ("millisecond", at.millisecond),
        ];
        parts.iter().chain(&clock).for_each(|(name, n)| out.put(name, *n as i32));
        Ok(())
    })
}

/// Checks that either a natural or an ISO year is given, and that the two kinds of arguments are not mixed.
fn check_from_parts(
    row: &'static Named,
    value: Value<'_>,
    _: &mut ParseCx<'_>,
) -> Result<Option<Args>> {
    let Value::Doc(doc) = value else {
        return Ok(None);
    };
    if doc.iter().any(|e| !row.params.iter().any(|(name, _)| *name == e.name())) {
        return Ok(None);
    }
    let has = |names: [&str; 3]| doc.iter().any(|e| names.contains(&e.name()));
    let (year, iso_year) = (doc.element("year").is_some(), doc.element("isoWeekYear").is_some());
    if !year && !iso_year {
        bail!(
            Code::Location(40516),
            "$dateFromParts requires either 'year' or 'isoWeekYear' to be present"
        );
    }
    let natural = has(["year", "month", "day"]);
    let iso = has(["isoWeekYear", "isoWeek", "isoDayOfWeek"]);
    if natural && iso {
        let code = if iso_year && !year { 40525 } else { 40489 };
        bail!(
            Code::Location(code),
            "$dateFromParts does not allow mixing natural dates with ISO dates"
        );
    }
    Ok(None)
}

/// An integer argument, `default` if it is absent; none if it is null.
fn from_part(given: &Given<'_, '_>, index: usize, name: &str, default: i64) -> Result<Option<i64>> {
    if !given.has(index) {
        return Ok(Some(default));
    }
    let value = given.value(index)?;
    if value.is_nullish() {
        return Ok(None);
    }
    match number::as_i64_exact(value) {
        Some(n) if n.abs() <= 1 << 52 => Ok(Some(n)),
        _ => bail!(
            Code::Location(40515),
            "'{name}' must evaluate to an integer, found {} with value {value}",
            type_name(value)
        ),
    }
}

fn date_from_parts<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let Some(zone) = zone(given, 10)? else {
        return Ok(Value::Null);
    };
    let (first, names) = if given.has(0) {
        (0, ["year", "month", "day"])
    } else {
        (3, ["isoWeekYear", "isoWeek", "isoDayOfWeek"])
    };
    let mut date = [0i64; 3];
    for (at, name) in names.into_iter().enumerate() {
        match from_part(given, first + at, name, 1)? {
            Some(n) => date[at] = n,
            None => return Ok(Value::Null),
        }
    }
    let [year, second, third] = date;
    if !(0..=9999).contains(&year) {
        bail!(
            Code::Location(if first == 0 { 40523 } else { 31095 }),
            "'{}' must evaluate to an integer in the range 0 to 9999, found {year}",
            names[0]
        );
    }
    let mut clock = [0i64; 4];
    for (at, name) in ["hour", "minute", "second", "millisecond"].into_iter().enumerate() {
        match from_part(given, 6 + at, name, 0)? {
            Some(n) => clock[at] = n,
            None => return Ok(Value::Null),
        }
    }
    let [hour, minute, seconds, millisecond] = clock;
    let (year, month, day) = if first == 0 {
        (year, second, third)
    } else if second.abs().max(third.abs()) > 1 << 32 {
        return Err(overflow());
    } else {
        // The count of days starts at 1970-01-01.
        (1970, 1, iso_week_days(year, second, third) + 1)
    };
    let local = Civil { year, month, day, hour, minute, second: seconds, millisecond };
    match local.to_ms() {
        Some(ms) => Ok(Value::DateTime(zone.to_utc(ms))),
        None => Err(overflow()),
    }
}

fn overflow() -> Error {
    err!(Code::DURATION_OVERFLOW, "Overflow casting from a lower-precision duration")
}
