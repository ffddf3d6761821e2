//! Civil time: the calendar of `nagi_bson` with times of day and weeks.

use nagi_bson::calendar::{date_of, days_of};

/// The number of milliseconds of a day.
pub(super) const DAY_MS: i64 = 86_400_000;
/// Years before or after year 0 that dates are computed in: some more than 64-bit milliseconds reach.
pub(super) const YEARS_MAX: i64 = 300_000_000;

/// A date and time of day, without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub millisecond: i64,
}

/// The ISO weekday of a day number: Monday is 1.
pub(super) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The day number of the Monday of week 1 of an ISO year.
pub(super) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (iso_weekday(fourth) - 1)
}

impl Civil {
    /// Converts milliseconds since 1970, interpreted as UTC.
    pub fn from_ms(ms: i64) -> Civil {
        let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
        let rest = ms.rem_euclid(DAY_MS);
        Civil {
            year,
            month,
            day,
            hour: rest / 3_600_000,
            minute: rest / 60_000 % 60,
            second: rest / 1000 % 60,
            millisecond: rest % 1000,
        }
    }

    /// Converts to milliseconds since 1970, interpreted as UTC. A part outside of its usual range carries over. None
    /// on overflow.
    pub fn to_ms(self) -> Option<i64> {
        let months = self.month.checked_sub(1)?;
        let year = self.year.checked_add(months.div_euclid(12))?;
        if year.abs() > YEARS_MAX {
            return None;
        }
        let days = days_of(year, months.rem_euclid(12) + 1, 1);
        let days = days.checked_add(self.day)?.checked_sub(1)?;
        days.checked_mul(DAY_MS)?
            .checked_add(self.hour.checked_mul(3_600_000)?)?
            .checked_add(self.minute.checked_mul(60_000)?)?
            .checked_add(self.second.checked_mul(1000)?)?
            .checked_add(self.millisecond)
    }

    /// The number of days since 1970.
    pub fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }

    /// The day of the year, 1 to 366.
    pub fn day_of_year(&self) -> i64 {
        self.days() - days_of(self.year, 1, 1) + 1
    }

    /// The day of the week, 1 (Sunday) to 7.
    pub fn day_of_week(&self) -> i64 {
        iso_weekday(self.days()) % 7 + 1
    }

    /// The ISO day of the week, 1 (Monday) to 7.
    pub fn iso_day_of_week(&self) -> i64 {
        iso_weekday(self.days())
    }

    /// The week of the year. Weeks begin on Sunday; days before the first Sunday are in week 0.
    pub fn week(&self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }

    /// The ISO 8601 year and week.
    pub fn iso_week(&self) -> (i64, i64) {
        let days = self.days();
        let mut year = self.year;
        if days >= iso_year_start(year + 1) {
            year += 1;
        } else if days < iso_year_start(year) {
            year -= 1;
        }
        (year, (days - iso_year_start(year)) / 7 + 1)
    }
}

/// The number of days from 1970-01-01 to a day of an ISO week. Week and day may be outside of their usual ranges.
pub fn iso_week_days(year: i64, week: i64, day: i64) -> i64 {
    iso_year_start(year) + (week - 1) * 7 + day - 1
}
