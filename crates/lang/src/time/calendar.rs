//! The calendar: from milliseconds to year, month, day and back.

/// Milliseconds of a day.
pub(super) const DAY_MS: i64 = 86_400_000;

/// A point in time as people write it, without a zone.
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

/// Days from 1970-01-01 to a date; month 1 to 12, any day number.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day last; 400 years have 146,097 days.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The length of a month.
pub(super) fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// ISO weekday of a day number: Monday is 1.
pub(super) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The day number of Monday of week 1 of an ISO year.
pub(super) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (iso_weekday(fourth) - 1)
}

impl Civil {
    /// From milliseconds since 1970, read as if in UTC.
    pub fn from_ms(ms: i64) -> Civil {
        let (year, month, day) = civil_from_days(ms.div_euclid(DAY_MS));
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

    /// Milliseconds since 1970 as if in UTC; every part may lie outside its usual range and carries.
    pub fn to_ms(self) -> Option<i64> {
        let months = self.month.checked_sub(1)?;
        let year = self.year.checked_add(months.div_euclid(12))?;
        if year.abs() > 300_000_000 {
            return None;
        }
        let days = days_from_civil(year, months.rem_euclid(12) + 1, 1);
        let days = days.checked_add(self.day)?.checked_sub(1)?;
        days.checked_mul(DAY_MS)?
            .checked_add(self.hour.checked_mul(3_600_000)?)?
            .checked_add(self.minute.checked_mul(60_000)?)?
            .checked_add(self.second.checked_mul(1000)?)?
            .checked_add(self.millisecond)
    }

    /// Days since 1970.
    pub fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }

    /// 1 to 366.
    pub fn day_of_year(&self) -> i64 {
        self.days() - days_from_civil(self.year, 1, 1) + 1
    }

    /// 1 (Sunday) to 7.
    pub fn day_of_week(&self) -> i64 {
        iso_weekday(self.days()) % 7 + 1
    }

    /// 1 (Monday) to 7.
    pub fn iso_day_of_week(&self) -> i64 {
        iso_weekday(self.days())
    }

    /// Weeks begin on Sunday; days before the first Sunday are in week 0.
    pub fn week(&self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }

    /// ISO 8601 year and week.
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

/// Days from 1970-01-01 to a day of an ISO week; week and day may lie outside their usual ranges.
pub fn iso_week_days(year: i64, week: i64, day: i64) -> i64 {
    iso_year_start(year) + (week - 1) * 7 + day - 1
}
