//! The proleptic Gregorian calendar for all years that 64 bits of milliseconds can represent.
//!
//! The computation uses `jiff`, whose years end at 9999. Dates outside of its range are shifted by whole cycles of
//! 400 years to the cycle that begins with 1970. All cycles have the same number of days.

use jiff::{
    Timestamp,
    civil::{Date, date},
    tz::Offset,
};

const CYCLE_YEARS: i64 = 400;
const CYCLE_DAYS: i64 = 146_097;
const DAY_SECONDS: i64 = 86_400;
const EPOCH: Date = date(1970, 1, 1);
const IN_CYCLE: &str = "the cycle from 1970 to 2369 is in the library's range";

/// The year, month and day of the month for a number of days since 1970-01-01.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let seconds = days.rem_euclid(CYCLE_DAYS) * DAY_SECONDS;
    let moment = Timestamp::from_second(seconds).expect(IN_CYCLE);
    let date = Offset::UTC.to_datetime(moment).date();
    let year = days.div_euclid(CYCLE_DAYS) * CYCLE_YEARS + i64::from(date.year());
    (year, date.month().into(), date.day().into())
}

/// The number of days from 1970-01-01 to a date. The month is 1 to 12, the day is any number, the year has up to nine
/// digits.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (cycles, first) = first_of(year, month);
    cycles * CYCLE_DAYS + first.duration_since(EPOCH).as_secs() / DAY_SECONDS + day - 1
}

/// The length of a month (1 to 12) in days.
pub fn days_of_month(year: i64, month: i64) -> i64 {
    first_of(year, month).1.days_in_month().into()
}

/// The first day of a month, shifted to the cycle of 1970, and the number of cycles by which it was shifted.
fn first_of(year: i64, month: i64) -> (i64, Date) {
    let since = year - i64::from(EPOCH.year());
    let in_cycle = since.rem_euclid(CYCLE_YEARS) as i16 + EPOCH.year();
    let first = Date::new(in_cycle, month as i8, 1).expect("a month is one of twelve");
    (since.div_euclid(CYCLE_YEARS), first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_days_follow_each_other_also_in_years_that_no_library_has() {
        // Two cycles and a day around several dates.
        for start in [-719_528, 0, 2_932_896, -106_751_991_167, 106_751_991_167 - 2 * CYCLE_DAYS] {
            let mut before = date_of(start - 1);
            for days in start..=start + 2 * CYCLE_DAYS {
                let (year, month, day) = date_of(days);
                assert_eq!(days_of(year, month, day), days);
                let follows = match (day, month) {
                    (1, 1) => before == (year - 1, 12, 31),
                    (1, _) => before == (year, month - 1, days_of_month(year, month - 1)),
                    _ => before == (year, month, day - 1),
                };
                assert!(follows, "{before:?} {year}-{month}-{day}");
                before = (year, month, day);
            }
        }
    }

    #[test]
    fn known_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (-25_510, (1900, 2, 27)),
            (-25_508, (1900, 3, 1)),
            (2_932_896, (9999, 12, 31)),
            (2_932_897, (10_000, 1, 1)),
            (-719_528, (0, 1, 1)),
            (-719_529, (-1, 12, 31)),
        ] {
            assert_eq!(date_of(days), date);
        }
        assert_eq!(days_of(2001, 2, 31), days_of(2001, 3, 3));
        assert_eq!((days_of_month(1900, 2), days_of_month(2000, 2)), (28, 29));
    }
}
