//! Date arithmetic in units: `$dateAdd`, `$dateDiff`, `$dateTrunc`.

use nagi_bson::calendar::{days_of, days_of_month};
use nagi_error::{Code, Result, bail};

use super::calendar::{DAY_MS, YEARS_MAX, iso_weekday};
use super::{Civil, Zone};

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

/// The first day of a week, as an ISO number: Monday is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weekday(pub i64);

impl Unit {
    pub fn parse(name: &str) -> Option<Unit> {
        Some(match name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            _ => return None,
        })
    }

    /// The milliseconds of a unit with a fixed length.
    fn fixed_ms(self) -> Option<i64> {
        match self {
            Unit::Hour => Some(3_600_000),
            Unit::Minute => Some(60_000),
            Unit::Second => Some(1000),
            Unit::Millisecond => Some(1),
            _ => None,
        }
    }
}

impl Weekday {
    /// Parses `monday` or `mon`, in any case.
    pub fn parse(name: &str) -> Option<Weekday> {
        const NAMES: [&str; 7] =
            ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
        let name = name.to_ascii_lowercase();
        let at = NAMES.iter().position(|n| *n == name || n[..3] == name)?;
        Some(Weekday(at as i64 + 1))
    }
}

/// Adds `amount` units. Units from days on keep the local time of day, and a day beyond the end of a month becomes
/// its last day. `None` if the date leaves the range of 64-bit milliseconds.
pub fn add(ms: i64, unit: Unit, amount: i64, zone: &Zone) -> Option<i64> {
    if let Some(length) = unit.fixed_ms() {
        return ms.checked_add(amount.checked_mul(length)?);
    }
    let local = ms.checked_add(zone.offset_at(ms) * 1000)?;
    let moved = match unit {
        Unit::Week => local.checked_add(amount.checked_mul(7 * DAY_MS)?)?,
        Unit::Day => local.checked_add(amount.checked_mul(DAY_MS)?)?,
        Unit::Year => add_months(local, amount.checked_mul(12)?)?,
        Unit::Quarter => add_months(local, amount.checked_mul(3)?)?,
        _ => add_months(local, amount)?,
    };
    if moved == local {
        return Some(ms);
    }
    Some(zone.to_utc(moved))
}

fn add_months(local: i64, months: i64) -> Option<i64> {
    let mut at = Civil::from_ms(local);
    let total = at.year.checked_mul(12)?.checked_add(at.month - 1)?.checked_add(months)?;
    at.year = total.div_euclid(12);
    at.month = total.rem_euclid(12) + 1;
    at.day = at.day.min(days_of_month(at.year, at.month));
    at.to_ms()
}

/// The number of boundaries of `unit` between `start` and `end`.
pub fn diff(start: i64, end: i64, unit: Unit, zone: &Zone, first: Weekday) -> Result<i64> {
    let overflow = || nagi_error::err!(Code::DURATION_OVERFLOW, "dateDiff overflowed");
    if unit == Unit::Millisecond {
        return end.checked_sub(start).ok_or_else(overflow);
    }
    let (a, b) = (zone.civil(start), zone.civil(end));
    Ok(match unit {
        Unit::Year => b.year - a.year,
        Unit::Quarter => (b.year - a.year) * 4 + (b.month - 1) / 3 - (a.month - 1) / 3,
        Unit::Month => (b.year - a.year) * 12 + b.month - a.month,
        Unit::Week => {
            let week = |days: i64| (days - (first.0 - 4)).div_euclid(7);
            week(b.days()) - week(a.days())
        }
        Unit::Day => b.days() - a.days(),
        _ => {
            // Hours and smaller units are counted in UTC, shifted by the offset at the start.
            let length = i128::from(unit.fixed_ms().unwrap_or(1));
            let shift = i128::from(zone.offset_at(start)) * 1000 % length;
            let bin = |ms: i64| (i128::from(ms) + shift).div_euclid(length);
            i64::try_from(bin(end) - bin(start)).map_err(|_| overflow())?
        }
    })
}

/// The beginning of the bin of `size` units that contains the date. Bins are counted from 2000-01-01.
pub fn truncate(ms: i64, unit: Unit, size: i64, zone: &Zone, first: Weekday) -> Result<i64> {
    let overflow = || nagi_error::err!(Code::Location(5439000), "dateTrunc overflowed");
    let reference_days = days_of(2000, 1, 1);
    if let Some(length) = unit.fixed_ms() {
        let length = length.checked_mul(size).ok_or_else(overflow)?;
        let reference = zone.to_utc(reference_days * DAY_MS);
        let since = ms.checked_sub(reference).ok_or_else(overflow)?;
        return ms.checked_sub(since.rem_euclid(length)).ok_or_else(overflow);
    }
    let local = zone.civil(ms);
    let months = match unit {
        Unit::Year => Some(12),
        Unit::Quarter => Some(3),
        Unit::Month => Some(1),
        _ => None,
    };
    if let Some(months) = months {
        let length = size.checked_mul(months).ok_or_else(overflow)?;
        let since = (local.year - 2000) * 12 + local.month - 1;
        let start = since - since.rem_euclid(length);
        if start.abs() > YEARS_MAX * 12 {
            return Err(overflow());
        }
        let days = days_of(2000 + start.div_euclid(12), start.rem_euclid(12) + 1, 1);
        return Ok(zone.to_utc(days.checked_mul(DAY_MS).ok_or_else(overflow)?));
    }
    let (reference, length) = match unit {
        Unit::Week => {
            // The first weekday `first` on or after 2000-01-01.
            let ahead = (first.0 - iso_weekday(reference_days)).rem_euclid(7);
            (reference_days + ahead, size.checked_mul(7).ok_or_else(overflow)?)
        }
        _ => (reference_days, size),
    };
    let since = local.days() - reference;
    let start = reference + since - since.rem_euclid(length);
    if start.abs() > i64::MAX / DAY_MS {
        bail!(Code::Location(5439004), "dateTrunc overflowed");
    }
    Ok(zone.to_utc(start * DAY_MS))
}
