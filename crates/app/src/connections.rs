//! How many connections there may be: as many as the limit of open files leaves room for.
//!
//! A full table of descriptors must not reach the storage engine, whose journal needs a new file now and then. So
//! connections get four fifths of the limit, as mongod gives them, and no connection is kept whose descriptor is
//! one of the last ones, whoever holds the others.

use rustix::process::{Resource, getrlimit};

use crate::options::Options;

/// Descriptors that connections never take: a twentieth of all, within these bounds.
const RESERVE: std::ops::RangeInclusive<u64> = 32..=1024;

/// What the process may have, and how much of it connections get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    soft: Option<u64>,
    hard: Option<u64>,
    /// Connections at once.
    pub(crate) connections: i64,
    /// Connections have descriptors below this number.
    pub(crate) descriptors: u64,
}

impl Limits {
    /// Of this process, whose limit was raised before.
    pub(crate) fn of_process(options: &Options) -> Limits {
        let limit = getrlimit(Resource::Nofile);
        Limits::new(limit.current, limit.maximum, options.connection_count_max)
    }

    fn new(soft: Option<u64>, hard: Option<u64>, wanted: i64) -> Limits {
        let Some(files) = soft else {
            return Limits { soft, hard, connections: wanted, descriptors: u64::MAX };
        };
        let supported = i64::try_from(u128::from(files) * 4 / 5).unwrap_or(i64::MAX);
        let reserve = (files / 20).clamp(*RESERVE.start(), *RESERVE.end());
        Limits {
            soft,
            hard,
            connections: wanted.min(supported).max(1),
            descriptors: files.saturating_sub(reserve),
        }
    }

    /// Says what the limits are, and that more was requested.
    pub(crate) fn log(&self, options: &Options) {
        let shown = |limit: Option<u64>| limit.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        log::info!(target: "NETWORK", id = 22940, hard = shown(self.hard), soft = shown(self.soft),
            conn = self.connections; "file descriptor and connection resource limits");
        let chosen = options.parsed.iter().any(|(key, _)| key == "net.maxIncomingConnections");
        if chosen && self.connections < options.connection_count_max {
            log::warn!(target: "NETWORK", id = 22941, limit = self.connections;
                " --maxConns too high, can only handle");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_of_the_files_and_never_the_last_ones() {
        let of = |soft, wanted| {
            let limits = Limits::new(soft, None, wanted);
            (limits.connections, limits.descriptors)
        };
        assert_eq!(of(Some(1024), 65_536), (819, 973));
        assert_eq!(of(Some(1024), 10), (10, 973));
        assert_eq!(of(Some(64), 65_536), (51, 32));
        assert_eq!(of(Some(1), 65_536), (1, 0));
        assert_eq!(of(Some(1 << 20), 65_536), (65_536, (1 << 20) - 1024));
        assert_eq!(of(None, 65_536), (65_536, u64::MAX));
    }
}
