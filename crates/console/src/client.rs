//! Whether the client of a request is still there.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

/// The client of one request.
pub(crate) struct Client {
    /// The connection's socket; `None`: it could not be watched.
    socket: Option<Arc<OwnedFd>>,
    /// No client waits for the request any more.
    left: AtomicBool,
}

impl Client {
    pub(crate) fn new(socket: Option<Arc<OwnedFd>>) -> Client {
        Client { socket, left: AtomicBool::new(false) }
    }

    /// Ends its connection.
    pub(crate) fn disconnect(&self) {
        if let Some(socket) = &self.socket {
            // It may have ended already. Whoever serves it reads the end of the stream.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Costs a system call.
    fn is_there(&self) -> bool {
        if self.left.load(Ordering::Relaxed) {
            return false;
        }
        let Some(socket) = &self.socket else { return true };
        // Bytes of a further request do not hide the end behind them, as they do from who reads.
        let mut watched = [PollFd::new(&**socket, PollFlags::RDHUP)];
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count == 0)
    }
}

/// Says when it is dropped that no client waits for the request any more.
pub(crate) struct Waits(pub(crate) Arc<Client>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

/// The client for which a connection to the server's core runs a command now.
#[derive(Default)]
pub(crate) struct Served(Mutex<Option<Arc<Client>>>);

impl Served {
    pub(crate) fn set(&self, client: Option<Arc<Client>>) {
        *self.0.lock() = client;
    }

    /// True if the client is there, or if none waits.
    pub(crate) fn is_there(&self) -> bool {
        let client = self.0.lock().clone();
        client.is_none_or(|client| client.is_there())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_client_that_left_is_noticed_behind_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        let served = Served::default();
        assert!(served.is_there());
        served.set(Some(Arc::new(Client::new(Some(Arc::new(near.into()))))));
        far.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert!(served.is_there());
        drop(far);
        assert!((0..1_000_000).any(|_| !served.is_there()));
        let client = Arc::new(Client::new(None));
        served.set(Some(client.clone()));
        assert!(served.is_there());
        drop(Waits(client));
        assert!(!served.is_there());
    }
}
