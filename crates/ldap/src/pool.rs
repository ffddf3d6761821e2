//! Open connections that are not in use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::connection::Connection;
use crate::hosts::Host;

/// The number of unused connections. More than one for each kind is of use only while many users log in.
const IDLE_MAX: usize = 16;

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Passwords of users are checked. The server takes the connection for that of the last user, so nothing else is
    /// done on it.
    Bind,
    /// Queries are run, as the configured user.
    Query,
}

struct Idle {
    host: Arc<Host>,
    purpose: Purpose,
    connection: Connection,
    since: Instant,
}

/// The unused connections.
pub(crate) struct Pool {
    idle_time: Duration,
    idle: Mutex<Vec<Idle>>,
}

impl Pool {
    pub(crate) fn new(idle_time: Duration) -> Pool {
        Pool { idle_time, idle: Mutex::default() }
    }

    /// The connection to a server that was used last.
    pub(crate) fn take(&self, host: &Arc<Host>, purpose: Purpose) -> Option<Connection> {
        self.expire();
        let mut idle = self.idle.lock();
        let fits = |one: &Idle| Arc::ptr_eq(&one.host, host) && one.purpose == purpose;
        let at = idle.iter().rposition(fits)?;
        Some(idle.remove(at).connection)
    }

    /// Keeps a connection whose last request was answered.
    pub(crate) fn put(&self, host: &Arc<Host>, purpose: Purpose, connection: Connection) {
        if self.idle_time.is_zero() {
            connection.close();
            return;
        }
        let since = Instant::now();
        let mut idle = self.idle.lock();
        let oldest = (idle.len() >= IDLE_MAX).then(|| idle.remove(0));
        idle.push(Idle { host: host.clone(), purpose, connection, since });
        drop(idle);
        // Closing sends a message, so the lock is not held.
        if let Some(oldest) = oldest {
            oldest.connection.close();
        }
    }

    /// Closes the connections that were not used for long.
    pub(crate) fn expire(&self) {
        let expired: Vec<Idle> = {
            let mut idle = self.idle.lock();
            let kept = idle.iter().position(|one| one.since.elapsed() < self.idle_time);
            let count = kept.unwrap_or(idle.len());
            idle.drain(..count).collect()
        };
        expired.into_iter().for_each(|one| one.connection.close());
    }

    /// Closes all connections.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.idle.lock());
        all.into_iter().for_each(|one| one.connection.close());
    }

    pub(crate) fn count(&self) -> u64 {
        self.idle.lock().len() as u64
    }
}
