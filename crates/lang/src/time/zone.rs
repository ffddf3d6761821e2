//! Time zones: UTC, fixed offsets, names of the IANA database.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nagi_error::{Code, Result, bail};

use super::Civil;

/// A time zone. Offsets are in seconds east of Greenwich.
#[derive(Debug, Clone)]
pub enum Zone {
    Utc,
    Offset(i64),
    Named(TimeZone),
}

/// The range in seconds that the time zone library supports. Dates outside of it use the offset at the nearest end.
const SECONDS_MAX: i64 = 253_402_200_000;
const SECONDS_MIN: i64 = -377_705_000_000;

impl Zone {
    /// Parses an Olson name (case-sensitive) or an offset: `+05:30`, `+0530`, `+05`.
    ///
    /// # Errors
    /// 40485 for an unknown name.
    pub fn parse(name: &str) -> Result<Zone> {
        if let Some(seconds) = offset(name) {
            return Ok(Zone::Offset(seconds));
        }
        if matches!(name, "UTC" | "GMT") {
            return Ok(Zone::Utc);
        }
        // The library ignores case; MongoDB does not.
        match TimeZone::get(name) {
            Ok(zone) if zone.iana_name() == Some(name) => Ok(Zone::Named(zone)),
            _ => bail!(Code::Location(40485), "unrecognized time zone identifier: \"{name}\""),
        }
    }

    /// The offset at a point in time, in seconds east of Greenwich.
    pub fn offset_at(&self, ms: i64) -> i64 {
        match self {
            Zone::Utc => 0,
            Zone::Offset(seconds) => *seconds,
            Zone::Named(zone) => {
                let seconds = ms.div_euclid(1000).clamp(SECONDS_MIN, SECONDS_MAX);
                Timestamp::from_second(seconds)
                    .map_or(0, |moment| i64::from(zone.to_offset(moment).seconds()))
            }
        }
    }

    /// The local date and time at a point in time.
    pub fn civil(&self, ms: i64) -> Civil {
        Civil::from_ms(ms.saturating_add(self.offset_at(ms) * 1000))
    }

    /// Converts a local time (in milliseconds, as if it were UTC) to UTC. An ambiguous local time is the earlier one.
    /// A local time that a change of the clocks skips uses the offset before the change.
    pub fn to_utc(&self, local_ms: i64) -> i64 {
        let seconds = match self {
            Zone::Utc => 0,
            Zone::Offset(seconds) => *seconds,
            Zone::Named(zone) => {
                let civil = Civil::from_ms(local_ms);
                match civil_of(civil) {
                    Some(local) => match zone.to_ambiguous_timestamp(local).compatible() {
                        Ok(moment) => local_ms.div_euclid(1000) - moment.as_second(),
                        Err(_) => self.offset_at(local_ms),
                    },
                    None => self.offset_at(local_ms),
                }
            }
        };
        local_ms.saturating_sub(seconds * 1000)
    }
}

fn civil_of(civil: Civil) -> Option<DateTime> {
    DateTime::new(
        i16::try_from(civil.year).ok()?,
        civil.month as i8,
        civil.day as i8,
        civil.hour as i8,
        civil.minute as i8,
        civil.second as i8,
        0,
    )
    .ok()
}

fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let digit = |at: usize| {
        let byte: u8 = *rest.get(at)?;
        byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
    };
    let pair = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
    let minutes = match rest.len() {
        2 => 0,
        4 => pair(2)?,
        5 if rest[2] == b':' => pair(3)?,
        _ => return None,
    };
    Some(sign * (pair(0)? * 3600 + minutes * 60))
}
