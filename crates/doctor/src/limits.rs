//! `/proc/self/limits`: the resource limits of a process.
//!
//!   Limit                     Soft Limit           Hard Limit           Units
//!   Max open files            1024                 524288               files

use crate::facts::Facts;
use crate::finding::NotKnown;

/// The table of limits.
pub(crate) const TABLE: &str = "/proc/self/limits";

/// A limit; `u64::MAX` means "unlimited".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// The limit with a name such as `Max open files`.
pub(crate) fn limit(facts: &Facts, name: &str) -> Result<Limit, NotKnown> {
    let unknown = || NotKnown(format!("{TABLE} has no \"{name}\""));
    let line = facts.text(TABLE)?.lines().find_map(|line| line.strip_prefix(name));
    let mut values = line.ok_or_else(unknown)?.split_whitespace().map(|value| match value {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    match (values.next().flatten(), values.next().flatten()) {
        (Some(soft), Some(hard)) => Ok(Limit { soft, hard }),
        _ => Err(unknown()),
    }
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
