//! Dates as ISO 8601 text, in the proleptic Gregorian calendar with milliseconds.

use crate::calendar::{date_of, days_of};

const DAY_MS: i64 = 86_400_000;

/// Formats milliseconds since 1970 as `2020-01-02T03:04:05.678Z`. `None` outside of the years 0 to 9999. A fraction
/// of zero is omitted, unless `always_fraction` is true.
pub fn format_utc(ms: i64, always_fraction: bool) -> Option<String> {
    let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
    if !(0..=9999).contains(&year) {
        return None;
    }
    let of_day = ms.rem_euclid(DAY_MS);
    let (h, m, s) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let fraction = match of_day % 1000 {
        0 if !always_fraction => String::new(),
        fraction => format!(".{fraction:03}"),
    };
    Some(format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}{fraction}Z"))
}

/// Parses `YYYY-MM-DD[THH:MM[:SS[.fff]]][Z|+HH:MM]`; without a zone it is UTC. `None` for other texts.
pub fn parse_iso(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let number = |s: &str| -> Option<i64> {
        (!s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten()
    };
    let bytes = date.as_bytes();
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_of(year, month, day);
    if date_of(days) != (year, month, day) {
        return None;
    }
    let midnight = days * DAY_MS;
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty().then_some(midnight);
    };
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut fields = clock.split(':');
    let (hour, minute) = (number(fields.next()?)?, number(fields.next()?)?);
    let second = fields.next().map_or(Some(0), number)?;
    if fields.next().is_some() || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction_ms = number(&format!("{fraction:0<3}")[..3])?;
    let offset = zone_minutes(zone)?;
    Some(midnight + ((hour * 60 + minute - offset) * 60 + second) * 1000 + fraction_ms)
}

/// The offset in minutes east of Greenwich: `Z`, nothing, `+HH`, `+HHMM`, `+HH:MM`.
fn zone_minutes(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match digits.len() {
        2 => Some(sign * digits.parse::<i64>().ok()? * 60),
        4 => {
            let n: i64 = digits.parse().ok()?;
            Some(sign * (n / 100 * 60 + n % 100))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(format_utc(ms, false).unwrap(), text);
            assert_eq!(parse_iso(text), Some(ms));
        }
        assert_eq!(parse_iso("2000-01-01T01:00+01:00"), parse_iso("2000-01-01"));
        for bad in [
            "2001-02-29",
            "2000-13-01",
            "x",
            "2000-01-01Tx",
            "2000-01-01T00:00:00+1",
            "2000-01-01T00:00:00.1\u{20ac}",
            "2000-01-01T00:00:00.1x",
        ] {
            assert_eq!(parse_iso(bad), None, "{bad}");
        }
        assert_eq!(format_utc(i64::MAX, false), None);
    }
}
