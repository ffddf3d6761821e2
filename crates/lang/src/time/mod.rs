//! Dates: the calendar, time zones, formats, parsing, arithmetic in units.
//!
//! A date is a number of milliseconds since 1970 in UTC. The calendar is the proleptic Gregorian one, with 64-bit
//! years (`nagi_bson::calendar`). Time zones come from the bundled IANA database, so that results do not depend on
//! the machine.
//!
//! ```text
//!   text   --parse / parse_with_format-->  milliseconds (UTC)  --format-->  text
//!   milliseconds  --Zone::civil-->  Civil (year, month, ...)  --to_ms, Zone::to_utc-->  milliseconds
//! ```
//!
//! This module does not know expressions and their arguments, and does not read clocks.

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
