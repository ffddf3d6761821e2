//! What one process may use, as checks need it.

use nagi_proc::limits::{Limit, parse};

use crate::facts::Facts;
use crate::finding::NotKnown;

pub(crate) use nagi_proc::limits::PATH as TABLE;

/// The limit with a name such as `Max open files`.
pub(crate) fn limit(facts: &Facts, name: &str) -> Result<Limit, NotKnown> {
    parse(facts.text(TABLE)?, name).ok_or_else(|| NotKnown(format!("{TABLE} has no \"{name}\"")))
}

/// The number of files the server can open: at startup it raises its soft limit to the hard one.
pub(crate) fn open_files(facts: &Facts) -> Result<u64, NotKnown> {
    let limit = limit(facts, "Max open files")?;
    Ok(if facts.server_pid.is_some() { limit.soft } else { limit.hard })
}

/// The number of connections the server can hold: its configured maximum, but at most four fifths of the files
/// it may open.
pub(crate) fn connections(facts: &Facts) -> Result<u64, NotKnown> {
    Ok((open_files(facts)? / 5 * 4).min(facts.connection_count_max))
}

/// The number of threads the server may need: one per connection, and some of its own.
pub(crate) fn threads(facts: &Facts) -> Result<u64, NotKnown> {
    const OWN: u64 = 64;
    Ok(connections(facts)? + OWN)
}
