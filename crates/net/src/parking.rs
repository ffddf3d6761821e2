//! Idle connections, which wait without a thread.
//!
//! ```text
//!   thread "connN" --idle for a while--> park -- epoll -- readable --> new thread "connN"
//! ```
//!
//! A sleeping thread costs its stack and what the allocator caches for it: more than all the rest of a connection.
//! The first request after the pause waits for the start of a thread, 0.15 ms.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use crate::connection::Visit;

/// The event data of the descriptor that ends [`Parking::next`].
const END: u64 = u64::MAX;
/// Connections that one call of the kernel reports.
const EVENTS_MAX: usize = 64;

/// The connections that wait for their next request.
pub(crate) struct Parking {
    epoll: OwnedFd,
    end: OwnedFd,
    visits: Mutex<Visits>,
}

#[derive(Default)]
struct Visits {
    next: u64,
    waiting: HashMap<u64, Box<Visit>>,
}

impl Parking {
    pub(crate) fn open() -> io::Result<Parking> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
        Ok(Parking { epoll, end, visits: Mutex::default() })
    }

    /// Waits for the connection's next bytes, or its end, without a thread. Returns it if the kernel cannot watch it
    /// (`fs.epoll.max_user_watches`).
    pub(crate) fn park(&self, visit: Box<Visit>) -> Result<(), Box<Visit>> {
        let stream = visit.stream.clone();
        let mut visits = self.visits.lock();
        visits.next += 1;
        let key = visits.next;
        // Under the lock, so that the event is not handled before the visit is there.
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        match epoll::add(&self.epoll, stream.as_fd(), EventData::new_u64(key), flags) {
            Ok(()) => visits.waiting.insert(key, visit),
            Err(_) => return Err(visit),
        };
        Ok(())
    }

    /// Waits until connections have something to read, and takes them. `None` after [`Parking::close`].
    pub(crate) fn next(&self) -> Option<Vec<Visit>> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
        let (events, _) = match epoll::wait(&self.epoll, &mut events, None) {
            Ok(events) => events,
            Err(_) => return Some(Vec::new()),
        };
        let mut visits = self.visits.lock();
        let mut ready = Vec::new();
        for event in events.iter() {
            let key = event.data.u64();
            if key == END {
                return None;
            }
            if let Some(visit) = visits.waiting.remove(&key) {
                let _ = epoll::delete(&self.epoll, visit.stream.as_fd());
                ready.push(*visit);
            }
        }
        Some(ready)
    }

    /// Ends [`Parking::next`].
    pub(crate) fn close(&self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
    }
}
