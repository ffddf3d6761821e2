//! Formatting of dates with the formats of `$dateToString`, such as `%Y-%m-%d`.

use std::fmt::Write;

use nagi_error::{Code, Result, bail};

use super::{Civil, Zone};

/// The format of `$toString`, and of `$dateToString` without a format.
const ISO: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Checks a format; `allowed` contains the valid specifiers.
///
/// # Errors
/// 18535 for a `%` at the end, 18536 for an invalid specifier.
pub fn check_format(format: &str, allowed: &str) -> Result<()> {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        match chars.next() {
            None => bail!(Code::Location(18535), "Unmatched '%' at end of format string"),
            Some(c) if allowed.contains(c) => {}
            Some(c) => {
                bail!(Code::Location(18536), "Invalid format character '%{c}' in format string")
            }
        }
    }
    Ok(())
}

/// A date in ISO 8601 format with `Z`.
pub fn iso_text(ms: i64) -> Result<String> {
    format(ms, ISO, &Zone::Utc)
}

/// A Timestamp in the format of the oldest string operators: `Jul  3 14:01:02:7`.
pub fn timestamp_text(stamp: u64) -> String {
    let at = Civil::from_ms((stamp >> 32) as i64 * 1000);
    format!(
        "{} {:>2} {:02}:{:02}:{:02}:{}",
        &MONTHS[at.month as usize - 1][..3],
        at.day,
        at.hour,
        at.minute,
        at.second,
        stamp & 0xFFFF_FFFF
    )
}

/// Formats a date.
///
/// # Errors
/// 18537 for a year outside of 0 to 9999, and those of [`check_format`].
pub fn format(ms: i64, format: &str, zone: &Zone) -> Result<String> {
    check_format(format, "dGHjLmMSuUVYzZwbB%")?;
    let at = zone.civil(ms);
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let _ = match chars.next().unwrap_or('%') {
            'Y' => year(&mut out, at.year)?,
            'G' => year(&mut out, at.iso_week().0)?,
            'm' => write!(out, "{:02}", at.month),
            'd' => write!(out, "{:02}", at.day),
            'H' => write!(out, "{:02}", at.hour),
            'M' => write!(out, "{:02}", at.minute),
            'S' => write!(out, "{:02}", at.second),
            'L' => write!(out, "{:03}", at.millisecond),
            'j' => write!(out, "{:03}", at.day_of_year()),
            'w' => write!(out, "{}", at.day_of_week()),
            'u' => write!(out, "{}", at.iso_day_of_week()),
            'U' => write!(out, "{:02}", at.week()),
            'V' => write!(out, "{:02}", at.iso_week().1),
            'b' => write!(out, "{}", &MONTHS[at.month as usize - 1][..3]),
            'B' => write!(out, "{}", MONTHS[at.month as usize - 1]),
            'z' => offset(&mut out, zone.offset_at(ms)),
            'Z' => write!(out, "{}", zone.offset_at(ms) / 60),
            other => write!(out, "{other}"),
        };
    }
    Ok(out)
}

fn year(out: &mut String, year: i64) -> Result<std::fmt::Result> {
    if !(0..=9999).contains(&year) {
        bail!(
            Code::Location(18537),
            "Could not convert date to string: date component was outside the supported range of \
             0-9999: {year}"
        );
    }
    Ok(write!(out, "{year:04}"))
}

fn offset(out: &mut String, seconds: i64) -> std::fmt::Result {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
}
