//! The servers of the directory: which to try first, and their addresses.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_server::DirectoryServer;
use parking_lot::{Condvar, Mutex};

use crate::connection::Failure;
use crate::settings::Address;

/// A server that failed is tried after the others for this time.
const DOWN_FOR: Duration = Duration::from_secs(30);
/// Addresses of a name are used for this time.
const RESOLVED_FOR: Duration = Duration::from_secs(60);

/// A server and what is known of it.
pub(crate) struct Host {
    pub(crate) address: Address,
    state: Mutex<State>,
    /// A thread has resolved the name, or failed.
    resolved: Condvar,
}

#[derive(Default)]
struct State {
    down_until: Option<Instant>,
    addresses: Vec<SocketAddr>,
    resolved_at: Option<Instant>,
    /// Why the last attempt found none.
    error: String,
    /// A thread resolves the name.
    resolving: bool,
    opened_count: u64,
    failed_count: u64,
}

impl Host {
    pub(crate) fn new(address: Address) -> Arc<Host> {
        Arc::new(Host { address, state: Mutex::default(), resolved: Condvar::new() })
    }

    /// Records that the server did not work.
    pub(crate) fn failed(&self) {
        let mut state = self.state.lock();
        state.failed_count += 1;
        state.down_until = Some(Instant::now() + DOWN_FOR);
        // It may have moved.
        state.resolved_at = None;
    }

    /// Records that the server answered.
    pub(crate) fn works(&self) {
        self.state.lock().down_until = None;
    }

    pub(crate) fn opened(&self) {
        self.state.lock().opened_count += 1;
    }

    fn is_down(&self, now: Instant) -> bool {
        self.state.lock().down_until.is_some_and(|until| until > now)
    }

    pub(crate) fn status(&self) -> DirectoryServer {
        let is_down = self.is_down(Instant::now());
        let state = self.state.lock();
        DirectoryServer {
            host: self.address.shown(),
            is_down,
            opened_count: state.opened_count,
            failed_count: state.failed_count,
        }
    }

    /// The addresses of the name.
    ///
    /// The system's resolver has timeouts of its own, which may be longer than the request's, so it is called on a
    /// thread; one a server, however many requests wait.
    pub(crate) fn addresses(
        self: &Arc<Host>,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, Failure> {
        if let Ok(ip) = self.address.host.parse() {
            return Ok(vec![SocketAddr::new(ip, self.address.port)]);
        }
        let unresolved = |why: &str| {
            Failure::Network(format!("the name '{}' has no address: {why}", self.address.host))
        };
        let mut state = self.state.lock();
        let mut has_waited = false;
        loop {
            let is_fresh =
                state.resolving || state.resolved_at.is_some_and(|at| at.elapsed() < RESOLVED_FOR);
            if is_fresh && !state.addresses.is_empty() {
                return Ok(state.addresses.clone());
            }
            if !state.resolving {
                if has_waited {
                    return Err(unresolved(&state.error));
                }
                state.resolving = true;
                let own = self.clone();
                let builder = std::thread::Builder::new().name("ldapResolver".to_owned());
                if let Err(error) = builder.spawn(move || own.resolve()) {
                    state.resolving = false;
                    return Err(unresolved(&error.to_string()));
                }
            }
            has_waited = true;
            if self.resolved.wait_until(&mut state, deadline).timed_out() {
                return Err(unresolved("the resolver of the system did not answer in time"));
            }
        }
    }

    /// Calls the resolver.
    fn resolve(&self) {
        let found = (self.address.host.as_str(), self.address.port).to_socket_addrs();
        let mut state = self.state.lock();
        state.resolving = false;
        match found {
            Ok(addresses) => {
                state.addresses = addresses.collect();
                state.resolved_at = Some(Instant::now());
                state.error = "there is none".to_owned();
            }
            Err(error) => state.error = error.to_string(),
        }
        self.resolved.notify_all();
    }
}

/// The servers in the order in which they are tried: as configured, but those that failed lately come last.
pub(crate) fn in_order(hosts: &[Arc<Host>]) -> Vec<Arc<Host>> {
    let now = Instant::now();
    let mut order = hosts.to_vec();
    order.sort_by_key(|host| host.is_down(now));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_failed_come_last() {
        let hosts =
            ["a", "b", "c"].map(|host| Host::new(Address { host: host.to_owned(), port: 1 }));
        let names = || -> String {
            in_order(&hosts).iter().map(|host| host.address.host.as_str()).collect()
        };
        assert_eq!(names(), "abc");
        hosts[0].failed();
        assert_eq!(names(), "bca");
        hosts[0].works();
        assert_eq!(names(), "abc");
        assert_eq!(hosts[0].status().failed_count, 1);
    }

    #[test]
    fn many_requests_wait_for_one_resolver() {
        let host = Host::new(Address { host: "localhost".to_owned(), port: 7 });
        let soon = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| host.addresses(soon))).collect();
            for one in all {
                assert!(one.join().unwrap().unwrap().iter().all(|address| address.port() == 7));
            }
        });
        let none = Host::new(Address { host: "none.invalid".to_owned(), port: 7 });
        assert!(none.addresses(soon).is_err());
    }
}
