//! The parser of dates without a format: ISO 8601 and other common notations.
//!
//! The text is read from left to right as a sequence of parts: a date, a time, a zone, a weekday name. A part that
//! occurs twice, or a text that is not a part, is an error.

use nagi_bson::calendar::days_of_month;
use nagi_error::Result;

use super::calendar::{DAY_MS, iso_year_start};
use super::format::MONTHS;
use super::parse_format::{failure_at, incomplete, resolve};
use super::{Civil, Zone};

/// A parsed date or time; none if it is well-formed but does not exist, such as `02-30` or `24:00`.
type Read = Option<i64>;

#[derive(Default)]
struct Found {
    /// The number of days since 1970.
    days: Option<Read>,
    time_ms: Option<Read>,
    offset: Option<i64>,
    /// The milliseconds of an `@seconds` text.
    moment: Option<i64>,
}

/// Zone abbreviations with their offsets in hours, mostly those of e-mail (RFC 2822).
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("cet", 1),
    ("cest", 2),
    ("bst", 1),
    ("wet", 0),
    ("west", 1),
    ("eet", 2),
    ("eest", 3),
    ("msk", 3),
    ("jst", 9),
];

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Parses a date. `zone` is the operator's argument, none if it is absent.
///
/// # Errors
/// 241 for a text that cannot be parsed, and for a zone in both the text and the argument.
pub fn parse(text: &str, zone: Option<&Zone>) -> Result<i64> {
    if text.is_empty() {
        return Err(failure_at(text, 0, "Empty string"));
    }
    let mut found = Found::default();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',', '\n']);
        if rest.is_empty() {
            break;
        }
        let at = text.len() - rest.len();
        let next = part(rest, &mut found);
        rest = next.ok_or_else(|| failure_at(text, at, unexpected(rest)))?;
    }
    if let Some(moment) = found.moment {
        return resolve(moment, Some(0), zone);
    }
    let behind = text.len() + 1;
    let time_ms = found.time_ms.unwrap_or(Some(0));
    let time_ms = time_ms.ok_or_else(|| failure_at(text, behind, "The parsed time was invalid"))?;
    let days = found.days.ok_or_else(|| incomplete(text))?;
    let days = days.ok_or_else(|| failure_at(text, behind, "The parsed date was invalid"))?;
    let local = days * DAY_MS + time_ms;
    resolve(local, found.offset, zone)
}

/// The error for a text that does not begin with a valid part. A word is assumed to be the name of a zone.
fn unexpected(rest: &str) -> &'static str {
    match word(rest).0.len() {
        0 | 1 => "Unexpected character",
        _ => "passing a time zone identifier as part of the string is not allowed",
    }
}

/// Parses one part and returns the rest of the text.
fn part<'t>(text: &'t str, found: &mut Found) -> Option<&'t str> {
    if !text.is_ascii() {
        return None;
    }
    if let Some(rest) = text.strip_prefix('@') {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        found.moment = Some(rest[..end].parse::<i64>().ok()?.checked_mul(1000)?);
        return Some(&rest[end..]);
    }
    if found.days.is_none()
        && let Some((days, rest)) = date(text)
    {
        found.days = Some(days);
        return Some(rest);
    }
    let clock = match text.as_bytes() {
        [b'T' | b't', digit, ..] if digit.is_ascii_digit() => &text[1..],
        _ => text,
    };
    let behind_t = clock.len() < text.len();
    if found.time_ms.is_none()
        && let Some((ms, rest)) = time(clock, found.days.is_some(), behind_t)
    {
        found.time_ms = Some(ms);
        return Some(rest);
    }
    if found.offset.is_none()
        && let Some((seconds, rest)) = zone_part(text)
    {
        found.offset = Some(seconds);
        return Some(rest);
    }
    let (word, rest) = word(text);
    let weekday = WEEKDAYS.iter().any(|n| word == *n || (word.len() == 3 && n.starts_with(&word)));
    (weekday && found.time_ms.is_none()).then_some(rest.trim_start_matches('.'))
}

/// The leading letters, in lower case.
fn word(text: &str) -> (String, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..end].to_ascii_lowercase(), &text[end..])
}

/// Parses between `min` and `max` digits.
fn digits(text: &str, min: usize, max: usize) -> Option<(i64, &str)> {
    let count = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    if count < min {
        return None;
    }
    Some((text[..count].parse().ok()?, &text[count..]))
}

fn not_digit(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_ascii_digit())
}

/// The day number. None if month or day are out of range; `Some(None)` if they are in range but the day does not
/// exist.
fn day_number(year: i64, month: i64, day: i64) -> Option<Read> {
    let written = (0..=12).contains(&month) && (0..=31).contains(&day);
    let good = month >= 1 && day >= 1 && written && day <= days_of_month(year, month);
    let at = Civil { year, month, day, hour: 0, minute: 0, second: 0, millisecond: 0 };
    written.then(|| good.then(|| at.days()))
}

fn date(text: &str) -> Option<(Read, &str)> {
    signed_year(text)
        .or_else(|| iso_week(text))
        .or_else(|| year_first(text))
        .or_else(|| compact(text))
        .or_else(|| day_first(text))
        .or_else(|| named_month(text))
        .or_else(|| short_year(text))
}

/// Parses `18-07-03`, with the year first.
fn short_year(text: &str) -> Option<(Read, &str)> {
    let (year, rest) = two_digits_of_year(text)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2, 2)?;
    not_digit(rest).then_some((day_number(year, month, day)?, rest))
}

/// Parses the last two digits of a year from 1970 to 2069.
fn two_digits_of_year(text: &str) -> Option<(i64, &str)> {
    let (year, rest) = digits(text, 2, 2).filter(|(_, rest)| not_digit(rest))?;
    Some((if year < 70 { 2000 + year } else { 1900 + year }, rest))
}

/// Parses `-0001-01-01`.
fn signed_year(text: &str) -> Option<(Read, &str)> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let rest = text.strip_prefix(['-', '+'])?;
    let (year, rest) = digits(rest, 4, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2, 2)?;
    Some((day_number(sign * year, month, day)?, rest))
}

/// Parses `2018-W27-2`, `2018W272`, `2018-W27`.
fn iso_week(text: &str) -> Option<(Read, &str)> {
    let (year, rest) = digits(text, 4, 4)?;
    let rest = rest.strip_prefix('-').unwrap_or(rest).strip_prefix('W')?;
    let (week, rest) = digits(rest, 2, 2)?;
    let behind = rest.strip_prefix('-').unwrap_or(rest);
    let (day, rest) = digits(behind, 1, 1).unwrap_or((1, rest));
    let good = (1..=53).contains(&week) && (0..=7).contains(&day);
    good.then(|| (Some(iso_year_start(year) + (week - 1) * 7 + day - 1), rest))
}

/// Parses `2018-07-03`, `2018/7/3`, `2018-07`, `2018-Jul-03`.
fn year_first(text: &str) -> Option<(Read, &str)> {
    let (year, rest) = digits(text, 4, 4)?;
    let separator = rest.chars().next().filter(|c| matches!(c, '-' | '/' | '.'))?;
    let rest = &rest[1..];
    let (month, rest) = digits(rest, 1, 2).or_else(|| month(rest))?;
    match rest.strip_prefix(separator).and_then(|rest| digits(rest, 1, 2)) {
        Some((day, rest)) if not_digit(rest) => Some((day_number(year, month, day)?, rest)),
        _ if separator == '-' && not_digit(rest) && !rest.starts_with('-') => {
            Some((day_number(year, month, 1)?, rest))
        }
        _ => None,
    }
}

/// Parses `20180703`, which a time may follow.
fn compact(text: &str) -> Option<(Read, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    if count != 8 && count != 14 {
        return None;
    }
    let (year, rest) = digits(text, 4, 4)?;
    let (month, rest) = digits(rest, 2, 2)?;
    let (day, rest) = digits(rest, 2, 2)?;
    Some((day_number(year, month, day)?, rest))
}

/// Parses `07/03/2018` and `07/03/18` (month first), `3.7.2018` and `03-07-2018` (day first), `03-Jul-2018`.
fn day_first(text: &str) -> Option<(Read, &str)> {
    let (first, rest) = digits(text, 1, 2)?;
    let separator = rest.chars().next().filter(|c| matches!(c, '-' | '/' | '.'))?;
    let rest = &rest[1..];
    let (second, rest) = digits(rest, 1, 2).or_else(|| month(rest))?;
    let behind = rest.strip_prefix(separator)?;
    let short = || two_digits_of_year(behind).filter(|_| separator == '/');
    let (year, rest) = digits(behind, 4, 4).or_else(short)?;
    if !not_digit(rest) {
        return None;
    }
    let (month, day) = if separator == '/' { (first, second) } else { (second, first) };
    Some((day_number(year, month, day)?, rest))
}

/// Parses `July 3, 2018`, `3 July 2018`, `3rd Jul 2018`, `Jul 2018`.
fn named_month(text: &str) -> Option<(Read, &str)> {
    if let Some((day, rest)) = digits(text, 1, 2) {
        let rest =
            ["st", "nd", "rd", "th"].iter().find_map(|s| rest.strip_prefix(s)).unwrap_or(rest);
        let (month, rest) = month(rest.trim_start_matches([' ', '-', '.']))?;
        let (year, rest) = digits(rest.trim_start_matches([' ', '-', '.', ',']), 4, 4)?;
        return Some((day_number(year, month, day)?, rest));
    }
    let (month, rest) = month(text)?;
    let rest = rest.trim_start_matches([' ', '-', '.']);
    if let Some((year, behind)) = digits(rest, 4, 4) {
        return Some((day_number(year, month, 1)?, behind));
    }
    let (day, rest) = digits(rest, 1, 2)?;
    let rest = ["st", "nd", "rd", "th"].iter().find_map(|s| rest.strip_prefix(s)).unwrap_or(rest);
    let (year, rest) = digits(rest.trim_start_matches([' ', '-', '.', ',']), 4, 4)?;
    Some((day_number(year, month, day)?, rest))
}

fn month(text: &str) -> Option<(i64, &str)> {
    let (word, rest) = word(text);
    if word.len() < 3 {
        return None;
    }
    let at = MONTHS.iter().position(|name| {
        let name = name.to_ascii_lowercase();
        name == word || name[..3] == word || (word == "sept" && name == "september")
    })?;
    Some((at as i64 + 1, rest))
}

/// Parses `14:01`, `14:01:02.123`, `14:01.02`, `140102` after a date, `2:01 PM`, `2pm`.
fn time(text: &str, behind_date: bool, behind_t: bool) -> Option<(Read, &str)> {
    let (hour, rest) = digits(text, 1, 2)?;
    let compact = behind_date && text.bytes().take_while(u8::is_ascii_digit).count() >= 4;
    let (minute, second, fraction, rest) = if compact {
        let (minute, rest) = digits(rest, 2, 2)?;
        let (second, rest) = digits(rest, 2, 2).unwrap_or((0, rest));
        (minute, second, 0, rest)
    } else if let Some(behind) = rest.strip_prefix(':') {
        let (minute, rest) = digits(behind, 1, 2)?;
        // A point may stand for the second colon: the digits after it are seconds.
        match rest.strip_prefix([':', '.']).and_then(|rest| digits(rest, 1, 2)) {
            Some((second, rest)) => {
                let (fraction, rest) = fraction(rest);
                (minute, second, fraction, rest)
            }
            None => (minute, 0, 0, rest),
        }
    } else {
        let (word, _) = word(rest.trim_start());
        if !matches!(word.as_str(), "am" | "pm") {
            return None;
        }
        (0, 0, 0, rest)
    };
    let (hour, rest) = if behind_t { (hour, rest) } else { half_day(hour, rest)? };
    let written = hour <= 24 && minute < 60 && second <= 60 && not_digit(rest);
    let ms = hour * 3_600_000 + minute * 60_000 + second * 1000 + fraction;
    written.then(|| ((hour < 24 && second < 60).then_some(ms), rest))
}

/// The milliseconds after the decimal point; further digits are ignored.
fn fraction(text: &str) -> (i64, &str) {
    let Some(behind) = text.strip_prefix('.') else {
        return (0, text);
    };
    let count = behind.bytes().take_while(u8::is_ascii_digit).count();
    let ms = behind[..count].bytes().chain(*b"000").take(3);
    (ms.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0')), &behind[count..])
}

fn half_day(hour: i64, rest: &str) -> Option<(i64, &str)> {
    let (word, behind) = word(rest.trim_start());
    match word.as_str() {
        "am" | "pm" if !(1..=12).contains(&hour) => None,
        "am" => Some((hour % 12, behind)),
        "pm" => Some((hour % 12 + 12, behind)),
        _ => Some((hour, rest)),
    }
}

/// Parses `Z`, `+05:30`, `GMT+2`, `EST`.
fn zone_part(text: &str) -> Option<(i64, &str)> {
    let (word, rest) = word(text);
    if !word.is_empty() {
        let known = ABBREVIATIONS.iter().find(|(name, _)| *name == word);
        if let Some((_, hours)) = known {
            if rest.starts_with(['/', '_']) {
                return None;
            }
            if *hours == 0 && rest.starts_with(['+', '-']) {
                return zone_part(rest);
            }
            return Some((hours * 3600, rest));
        }
        return None;
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let rest = text.strip_prefix(['+', '-'])?;
    let (hours, rest) = digits(rest, 1, 2)?;
    let behind = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = digits(behind, 2, 2).unwrap_or((0, rest));
    not_digit(rest).then_some((sign * (hours * 3600 + minutes * 60), rest))
}
