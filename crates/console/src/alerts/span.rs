//! Times in rules: seconds, or a number with a unit.

use nagi_bson::{Value, number};

const UNITS: [(&str, i64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
/// A year: the longest time in a rule.
const SECONDS_MAX: i64 = 365 * 86_400;

/// Milliseconds of `90`, `"90s"`, `"5m"`, `"4h"` or `"7d"`.
///
/// # Errors
/// If it is something else, or longer than a year.
pub(super) fn parse(value: Value<'_>) -> Result<i64, String> {
    let seconds = match value {
        Value::String(text) => of_text(text.trim()),
        value => {
            number::as_f64(value).filter(|n| n.fract() == 0.0 && n.abs() < 1e15).map(|n| n as i64)
        }
    };
    match seconds {
        Some(seconds) if (0..=SECONDS_MAX).contains(&seconds) => Ok(seconds * 1000),
        Some(_) => Err("a time is at least 0 and at most a year".to_owned()),
        None => Err("expected a time such as 90, 90s, 5m, 4h or 7d".to_owned()),
    }
}

fn of_text(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(end);
    let factor = match unit {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    count.parse::<i64>().ok()?.checked_mul(factor)
}

/// The shortest notation that [`parse`] reads.
pub(super) fn shown(ms: i64) -> String {
    let seconds = ms / 1000;
    let unit = UNITS.iter().rev().find(|(_, factor)| seconds >= *factor && seconds % factor == 0);
    let (name, factor) = unit.copied().unwrap_or(UNITS[0]);
    format!("{}{name}", seconds / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, ms) in
            [("90", 90_000), ("90s", 90_000), ("5m", 300_000), ("4h", 14_400_000), ("0", 0)]
        {
            assert_eq!(parse(Value::String(text)), Ok(ms), "{text}");
            assert_eq!(parse(Value::String(&shown(ms))), Ok(ms), "{text}");
        }
        assert_eq!(parse(Value::Int32(7)), Ok(7000));
        assert_eq!(parse(Value::Double(2.0)), Ok(2000));
        assert_eq!((shown(604_800_000), shown(90_000)), ("7d".to_owned(), "90s".to_owned()));
        for bad in ["", "m", "-5m", "1.5h", "5 m", "5M", "366d", "99999999999999999999"] {
            assert!(parse(Value::String(bad)).is_err(), "{bad}");
        }
        for bad in [Value::Double(0.5), Value::Double(f64::NAN), Value::Int32(-1), Value::Null] {
            assert!(parse(bad).is_err());
        }
    }
}
