//! Dates: the calendar, time zones, formats, parsing, arithmetic by units.
//!
//! A date is milliseconds since 1970 in UTC. The calendar is the proleptic Gregorian one, in 64 bits
//! (`nagi_bson::calendar`); zones come from the bundled IANA database, so that results
//! do not depend on the machine.
//!
//! Does not know about: expressions and their arguments; clocks.

mod calendar;
mod format;
mod parse;
mod parse_format;
mod units;
mod zone;

pub use calendar::{Civil, iso_week_days};
pub use format::{check_format, format, iso_text, timestamp_text};
pub use parse::parse;
pub use parse_format::parse_with_format;
pub use units::{Unit, Weekday, add, diff, truncate};
pub use zone::Zone;
