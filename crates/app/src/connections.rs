//! The maximum number of connections, derived from the limit of open files.
//!
//! Exhausted file descriptors must not affect the storage engine, whose write-ahead log occasionally needs a new file.
//! Connections therefore get four fifths of the limit, as in mongod, and a connection with one of the last descriptors
//! is closed, no matter what the other descriptors are used for.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

use crate::options::Options;

/// Descriptors reserved for other uses than connections: a twentieth of all, within these bounds.
const RESERVE: std::ops::RangeInclusive<u64> = 32..=1024;

/// The limits of the process, and the share of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    soft: Option<u64>,
    hard: Option<u64>,
    /// The maximum number of connections.
    pub(crate) connections: i64,
    /// Connections have descriptors below this number.
    pub(crate) descriptors: u64,
}

impl Limits {
    /// The limits of this process. Must be called after its limit was raised.
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

    /// Checks that a connection can have a descriptor. Must be called when everything else is open.
    ///
    /// # Errors
    /// If all connections would be closed at once: the text says which limit is too low.
    pub(crate) fn check(&self) -> std::io::Result<()> {
        let next = std::fs::File::open("/dev/null")?.as_raw_fd();
        let used = u64::try_from(next).unwrap_or(0);
        match self.soft {
            Some(files) if used >= self.descriptors => Err(std::io::Error::other(format!(
                "no connection would be accepted: {files} open files are allowed (ulimit -n), {used} are in use, and \
                 {} are reserved for the storage engine",
                files - self.descriptors
            ))),
            _ => Ok(()),
        }
    }

    /// Logs the limits, and a warning if more connections were configured.
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

    #[test]
    fn a_limit_without_a_descriptor_for_connections_is_refused() {
        assert!(Limits::new(Some(1 << 20), None, 10).check().is_ok());
        assert!(Limits::new(None, None, 10).check().is_ok());
        let error = Limits::new(Some(32), None, 10).check().unwrap_err().to_string();
        assert!(error.contains("32 open files are allowed (ulimit -n)"), "{error}");
    }
}
