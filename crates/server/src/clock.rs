//! The clock: the only place of the server that reads the time, and the formats of times in the log.
//!
//! Wall-clock times are milliseconds since 1970; durations are measured on a monotonic clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nagi_bson::calendar::date_of;

/// Milliseconds since 1970 by the wall clock.
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// Seconds since 1970, as in ObjectIds and timestamps.
pub(crate) fn wall_seconds() -> u32 {
    u32::try_from(wall_ms() / 1000).unwrap_or(u32::MAX)
}

/// The wall clock as a cluster time.
pub(crate) fn wall_stamp() -> u64 {
    u64::from(wall_seconds()) << 32
}

/// The current time of the monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Microseconds since `start`.
pub(crate) fn micros_since(start: Instant) -> u64 {
    start.elapsed().as_micros() as u64
}

/// Appends `2026-11-21T21:50:39.123+00:00` to `out`.
pub(crate) fn write_iso(out: &mut String, ms: i64) {
    use std::fmt::Write;
    let (year, month, day) = date_of(ms.div_euclid(86_400_000));
    let of_day = ms.rem_euclid(86_400_000);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}+00:00"
    );
}

/// `2026-11-21T21-50-39`: the suffix of a rotated log file.
pub(crate) fn file_suffix(ms: i64) -> String {
    let mut text = String::new();
    write_iso(&mut text, ms);
    text.truncate(19);
    text.replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_dates() {
        for (ms, expect) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_795_297_839_123, "2026-11-21T21:50:39.123+00:00"),
            (-1, "1969-12-31T23:59:59.999+00:00"),
        ] {
            let mut text = String::new();
            write_iso(&mut text, ms);
            assert_eq!(text, expect);
        }
        assert_eq!(file_suffix(0), "1970-01-01T00-00-00");
    }
}
