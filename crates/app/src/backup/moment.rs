//! Times of the log: how they are written, and how `--to` names one.
//!
//! A stamp has seconds since 1970 in its upper half and a number within the second in the lower one, as MongoDB's
//! `Timestamp` has. As text it is `seconds,number`.

use nagi_bson::Value;
use nagi_bson::text::Hex;

/// A time of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// The stamp in a document of the log or of a manifest.
    pub(super) fn of(value: Value<'_>) -> Option<Stamp> {
        match value {
            Value::Timestamp(stamp) => Some(Stamp(stamp)),
            _ => None,
        }
    }

    pub(super) fn seconds(self) -> u64 {
        self.0 >> 32
    }

    fn number(self) -> u64 {
        self.0 & 0xFFFF_FFFF
    }

    /// The form in names of files, which sort by time.
    pub(super) fn name(self) -> String {
        format!("{:010}-{:010}", self.seconds(), self.number())
    }

    pub(super) fn parse_name(text: &str) -> Option<Stamp> {
        let (seconds, number) = text.split_once('-')?;
        let part = |text: &str| match text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse::<u32>().ok(),
            false => None,
        };
        Some(Stamp(u64::from(part(seconds)?) << 32 | u64::from(part(number)?)))
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let date = date(self.seconds() as i64 * 1000);
        write!(f, "{},{} ({date})", self.seconds(), self.number())
    }
}

/// A time in milliseconds since 1970 as text, in whole seconds.
pub(super) fn date(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (year, month, day) = date_of(seconds.div_euclid(86_400));
    let time = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The id of a replica set (`settings.replicaSetId`), which ties an archive to it: the times of another set's log mean
/// nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetId(pub(super) [u8; 12]);

impl SetId {
    /// The id in a configuration or in a manifest.
    pub(super) fn of(value: Value<'_>) -> Option<SetId> {
        match value {
            Value::ObjectId(id) => Some(SetId(*id)),
            _ => None,
        }
    }
}

impl std::fmt::Display for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Hex(&self.0))
    }
}

/// What `--to` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// All that is archived.
    Latest,
    /// Everything up to this stamp, which is included.
    Stamp(Stamp),
    /// Everything up to the end of this second.
    Second(u64),
}

impl Moment {
    /// Parses `seconds,number`, a date with a time in UTC or with an offset, or `latest`.
    pub(super) fn parse(text: &str) -> Result<Moment, String> {
        if text == "latest" {
            return Ok(Moment::Latest);
        }
        let found = match text.split_once(',') {
            Some((seconds, number)) => match (seconds.parse::<u32>(), number.parse::<u32>()) {
                (Ok(seconds), Ok(number)) => {
                    Some(Moment::Stamp(Stamp(u64::from(seconds) << 32 | u64::from(number))))
                }
                _ => None,
            },
            None => seconds_of(text).map(Moment::Second),
        };
        found.ok_or_else(|| {
            format!(
                "--to {text}: expected a time such as 2026-11-26T09:30:00Z or 2026-11-26T09:30:00+01:00, a time of \
                 the log such as 1795671558,3, or latest"
            )
        })
    }

    /// The last stamp that belongs to it.
    pub(super) fn last(self) -> Stamp {
        match self {
            Moment::Latest => Stamp(u64::MAX),
            Moment::Stamp(stamp) => stamp,
            Moment::Second(second) => Stamp(second << 32 | 0xFFFF_FFFF),
        }
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Moment::Latest => f.write_str("latest"),
            Moment::Stamp(stamp) => write!(f, "{stamp}"),
            Moment::Second(_) => write!(f, "{}", Stamp(self.last().0 & !0xFFFF_FFFF)),
        }
    }
}

/// Seconds since 1970 of `YYYY-MM-DDTHH:MM:SS` with `Z` or an offset `+HH:MM`.
fn seconds_of(text: &str) -> Option<u64> {
    let (date, zone) = text.split_at_checked(19)?;
    let bytes = date.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = date.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = day_number(year, month, day);
    if date_of(days) != (year, month, day) {
        return None;
    }
    let offset = match zone {
        "Z" => 0,
        _ => offset_minutes(zone)?,
    };
    u64::try_from(days * 86_400 + hour * 3600 + (minute - offset) * 60 + second).ok()
}

fn offset_minutes(zone: &str) -> Option<i64> {
    let (sign, rest) = zone.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let part = |text: &str| (text.len() == 2).then(|| text.parse::<u8>().ok()).flatten();
    let total = i64::from(part(hours)?) * 60 + i64::from(part(minutes)?);
    match sign {
        "+" => Some(total),
        "-" => Some(-total),
        _ => None,
    }
}

/// Days since 1970 of a date of the Gregorian calendar. March is the first month, so that leap days come last.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a number of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed() {
        let second = |text: &str| match Moment::parse(text) {
            Ok(Moment::Second(second)) => Some(second),
            _ => None,
        };
        assert_eq!(second("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(second("2026-11-26T05:39:18Z"), Some(1_795_671_558));
        assert_eq!(second("2026-11-26T06:39:18+01:00"), Some(1_795_671_558));
        assert_eq!(second("2026-11-25T23:09:18-06:30"), Some(1_795_671_558));
        assert_eq!(second("2024-02-29T00:00:00Z"), Some(1_709_164_800));
        assert_eq!(Moment::parse("5,3"), Ok(Moment::Stamp(Stamp(5 << 32 | 3))));
        assert_eq!(Moment::parse("latest"), Ok(Moment::Latest));
        for bad in [
            "",
            "5",
            "5,",
            ",5",
            "5,-1",
            "4294967296,1",
            "2026-11-26",
            "2026-11-26T05:39:18",
            "2026-11-26T05:39:18.5Z",
            "2026-11-26 05:39:18Z",
            "2026-13-26T05:39:18Z",
            "2026-02-29T00:00:00Z",
            "2026-11-26T24:00:00Z",
            "2026-11-26T05:39:18+1:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(Moment::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stamps_are_shown_and_named() {
        let stamp = Stamp(1_795_671_558 << 32 | 3);
        assert_eq!(stamp.to_string(), "1795671558,3 (2026-11-26T05:39:18Z)");
        assert_eq!(stamp.name(), "1795671558-0000000003");
        assert_eq!(Stamp::parse_name(&stamp.name()), Some(stamp));
        for bad in
            ["", "1-1", "1795671558-000000000x", "9999999999-0000000000", "+795671558-0000000003"]
        {
            assert_eq!(Stamp::parse_name(bad), None, "{bad}");
        }
        assert_eq!(Moment::Second(5).last(), Stamp(5 << 32 | 0xFFFF_FFFF));
        assert_eq!(Moment::Second(5).to_string(), "5,0 (1970-01-01T00:00:05Z)");
        for days in (-800_000..800_000).step_by(13) {
            let (year, month, day) = date_of(days);
            assert_eq!(day_number(year, month, day), days);
        }
    }
}
