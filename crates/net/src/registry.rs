//! The open connections: their sockets can be shut down from other threads when the server stops.

use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::stream::Stream;

/// The open connections. Accessed when a connection begins or ends, never by a request.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    open: Mutex<Open>,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    streams: HashMap<u64, Arc<Stream>>,
    stopping: bool,
}

/// The registration of one connection; dropped by its thread.
#[derive(Debug)]
pub(crate) struct Member {
    registry: Arc<Registry>,
    key: u64,
}

impl Registry {
    /// Registers a connection; `None` if the server is shutting down.
    pub(crate) fn join(self: &Arc<Registry>, stream: &Arc<Stream>) -> Option<Member> {
        let mut open = self.open.lock();
        if open.stopping {
            return None;
        }
        open.next += 1;
        let key = open.next;
        open.streams.insert(key, stream.clone());
        Some(Member { registry: self.clone(), key })
    }

    /// The number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().streams.len()
    }

    /// Closes all connections. First only their reading sides, so that pending replies are still sent; after `grace`
    /// both sides. Returns true if all connections ended within `grace`.
    pub(crate) fn drain(&self, grace: Duration) -> bool {
        let mut open = self.open.lock();
        open.stopping = true;
        for stream in open.streams.values() {
            stream.shutdown(Shutdown::Read);
        }
        while !open.streams.is_empty() {
            if self.emptied.wait_for(&mut open, grace).timed_out() {
                for stream in open.streams.values() {
                    stream.shutdown(Shutdown::Both);
                }
                return false;
            }
        }
        true
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut open = self.registry.open.lock();
        open.streams.remove(&self.key);
        if open.streams.is_empty() {
            self.registry.emptied.notify_all();
        }
    }
}
