//! The parser of dates with a format, for `$dateFromString`.

use nagi_bson::calendar::{days_of, days_of_month};
use nagi_error::{Code, Error, Result, bail};

use super::calendar::{DAY_MS, iso_year_start};
use super::format::{MONTHS, check_format};
use super::{Civil, Zone};

/// The values of the parts of the format.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    offset: Option<i64>,
}

/// The error for a text that is invalid at byte `at`. It contains the character at `at`, or NUL at the end of the
/// text.
pub(super) fn failure_at(text: &str, at: usize, why: &str) -> Error {
    let found = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('\0');
    Error::new(
        Code::CONVERSION_FAILURE,
        format!("Error parsing date string '{text}'; {at}: {why} '{found}'"),
    )
}

/// The error for a date with missing parts.
pub(super) fn incomplete(text: &str) -> Error {
    Error::new(
        Code::CONVERSION_FAILURE,
        format!("an incomplete date/time string has been found, with elements missing: \"{text}\""),
    )
}

/// Converts a local time to UTC, and checks that not both the text and the argument contain a zone.
pub(super) fn resolve(local_ms: i64, offset: Option<i64>, zone: Option<&Zone>) -> Result<i64> {
    match (offset, zone) {
        (Some(_), Some(_)) => bail!(
            Code::CONVERSION_FAILURE,
            "you cannot pass in a date/time string with time zone information together with a \
             timezone argument"
        ),
        (Some(seconds), None) => Ok(local_ms - seconds * 1000),
        (None, Some(zone)) => Ok(zone.to_utc(local_ms)),
        (None, None) => Ok(local_ms),
    }
}

/// Parses a date by a format. `zone` is the operator's argument, none if it is absent.
///
/// # Errors
/// 241 for a text that does not match the format, and for a zone in both the text and the argument.
pub fn parse_with_format(text: &str, format: &str, zone: Option<&Zone>) -> Result<i64> {
    check_format(format, "dGHjLmMSuVYzZbB%")?;
    let mut parts = Parts::default();
    let mut rest = text;
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        let at = text.len() - rest.len();
        let specifier = if c == '%' { chars.next() } else { None };
        match specifier {
            Some('%') | None => match rest.strip_prefix(if c == '%' { '%' } else { c }) {
                Some(behind) => rest = behind,
                None if rest.is_empty() => {
                    return Err(failure_at(text, at, "Data missing"));
                }
                None => return Err(failure_at(text, at, "Format literal not found")),
            },
            Some(specifier) => {
                rest = part(&mut parts, specifier, rest).ok_or_else(|| {
                    failure_at(text, at, &format!("Data missing for %{specifier}"))
                })?;
            }
        }
    }
    if !rest.is_empty() {
        return Err(failure_at(text, text.len() - rest.len(), "Trailing data"));
    }
    let local = local(&parts).ok_or_else(|| incomplete(text))?;
    let local = local.ok_or_else(|| failure_at(text, text.len(), "The parsed date was invalid"))?;
    resolve(local, parts.offset, zone)
}

/// Parses up to `digits` digits.
fn number(text: &str, digits: usize) -> Option<(i64, &str)> {
    let count = text.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(count);
    Some((number.parse().ok()?, rest))
}

fn part<'t>(parts: &mut Parts, specifier: char, text: &'t str) -> Option<&'t str> {
    let digits = match specifier {
        'Y' | 'G' => 4,
        'L' | 'j' => 3,
        'u' => 1,
        'b' | 'B' => {
            let (month, rest) = month_name(text, specifier == 'b')?;
            parts.month = Some(month);
            return Some(rest);
        }
        'z' | 'Z' => {
            let (seconds, rest) = offset(text, specifier == 'Z')?;
            parts.offset = Some(seconds);
            return Some(rest);
        }
        _ => 2,
    };
    let (n, rest) = number(text, digits)?;
    match specifier {
        'Y' => parts.year = Some(n),
        'G' => parts.iso_year = Some(n),
        'm' => parts.month = Some(n),
        'd' => parts.day = Some(n),
        'H' => parts.hour = n,
        'M' => parts.minute = n,
        'S' => parts.second = n,
        'L' => {
            // "5" is half a second: the digits are those after the decimal point.
            let read = text.len() - rest.len();
            parts.millisecond = n * 10_i64.pow(3 - read as u32);
        }
        'j' => parts.day_of_year = Some(n),
        'V' => parts.iso_week = Some(n),
        'u' => {
            if !(1..=7).contains(&n) {
                return None;
            }
            parts.iso_day = Some(n);
        }
        _ => return None,
    }
    Some(rest)
}

fn month_name(text: &str, short: bool) -> Option<(i64, &str)> {
    MONTHS.iter().enumerate().find_map(|(at, name)| {
        let name = if short { &name[..3] } else { name };
        let head = text.get(..name.len())?;
        head.eq_ignore_ascii_case(name).then(|| (at as i64 + 1, &text[name.len()..]))
    })
}

/// Parses `+0530`, `+05:30`, `Z`, or an offset in minutes: `+330`.
fn offset(text: &str, in_minutes: bool) -> Option<(i64, &str)> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        b'Z' | b'z' if !in_minutes => return Some((0, &text[1..])),
        _ => return None,
    };
    let text = &text[1..];
    if in_minutes {
        let (minutes, rest) = number(text, 4)?;
        return Some((sign * minutes * 60, rest));
    }
    let (hours, rest) = number(text, 2)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = number(rest, 2).unwrap_or((0, rest));
    Some((sign * (hours * 3600 + minutes * 60), rest))
}

/// Combines the parts. `None` if parts are missing; `Some(None)` if the date does not exist.
fn local(parts: &Parts) -> Option<Option<i64>> {
    let good_time = (0..24).contains(&parts.hour)
        && (0..60).contains(&parts.minute)
        && (0..60).contains(&parts.second);
    let time =
        parts.hour * 3_600_000 + parts.minute * 60_000 + parts.second * 1000 + parts.millisecond;
    if let Some(year) = parts.iso_year {
        let week = parts.iso_week?;
        let days = iso_year_start(year) + (week - 1) * 7 + parts.iso_day.unwrap_or(1) - 1;
        let good = good_time && (1..=53).contains(&week);
        return Some(good.then_some(days * DAY_MS + time));
    }
    let year = parts.year?;
    if let Some(day) = parts.day_of_year {
        let days = days_of(year, 1, 1) + day - 1;
        let good = good_time && (1..=366).contains(&day);
        return Some(good.then_some(days * DAY_MS + time));
    }
    let (month, day) = (parts.month?, parts.day.unwrap_or(1));
    let good =
        good_time && (1..=12).contains(&month) && day >= 1 && day <= days_of_month(year, month);
    let date = Civil { year, month, day, hour: 0, minute: 0, second: 0, millisecond: 0 };
    Some(if good { date.to_ms().map(|ms| ms + time) } else { None })
}
