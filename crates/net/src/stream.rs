//! A connected TCP or Unix socket.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A dead peer is detected after two minutes and nine unanswered probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The congestion control of connections within the machine. Nothing is lost there, so one that paces what it sends, as
/// BBR does with timers, only costs time: 14 % of a scan's, and a third of its time in the kernel.
const WITHIN_THE_MACHINE: &str = "reno";

/// `MSG_PEEK | MSG_DONTWAIT` of Linux.
const PEEK_AT_ONCE: i32 = 0x2 | 0x40;

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

impl Stream {
    /// Sets the socket options: small replies are sent at once, TCP keep-alive probes idle peers, writes have a
    /// timeout, and connections within the machine are not paced.
    pub(crate) fn prepare(&self, write_gap_max: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => {
                s.set_nodelay(true)?;
                let keepalive =
                    TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
                SockRef::from(s).set_tcp_keepalive(&keepalive)?;
                if s.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback()) {
                    // A kernel may refuse it; then its default remains.
                    let _ = rustix::net::sockopt::set_tcp_congestion(s, WITHIN_THE_MACHINE);
                }
                s.set_write_timeout(Some(write_gap_max))
            }
            Stream::Unix(s) => s.set_write_timeout(Some(write_gap_max)),
        }
    }

    /// Sets how long a write may wait for the peer.
    pub(crate) fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_write_timeout(Some(timeout)),
            Stream::Unix(s) => s.set_write_timeout(Some(timeout)),
        }
    }

    /// The file descriptor.
    pub(crate) fn descriptor(&self) -> u64 {
        let number = match self {
            Stream::Tcp(s) => s.as_raw_fd(),
            Stream::Unix(s) => s.as_raw_fd(),
        };
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(timeout),
            Stream::Unix(s) => s.set_read_timeout(timeout),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        // An error means that the peer has already closed the socket.
        let _ = match self {
            Stream::Tcp(s) => s.shutdown(how),
            Stream::Unix(s) => s.shutdown(how),
        };
    }

    /// Reads available bytes into `place`; 0 means the end of the stream. Interrupted calls are repeated.
    pub(crate) fn read(&self, place: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Stream::Tcp(s) => (&*s).read(place),
                Stream::Unix(s) => (&*s).read(place),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Returns true if the peer has not disconnected. Neither waits nor consumes bytes. A disconnect is not noticed
    /// while unread bytes are available.
    pub(crate) fn is_open(&self) -> bool {
        let mut place = [MaybeUninit::uninit()];
        let peeked = match self {
            Stream::Tcp(s) => SockRef::from(s).recv_with_flags(&mut place, PEEK_AT_ONCE),
            Stream::Unix(s) => SockRef::from(s).recv_with_flags(&mut place, PEEK_AT_ONCE),
        };
        match peeked {
            Ok(count) => count > 0,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    /// As [`Stream::is_open`], but a disconnect is noticed also behind unread bytes: a peer with TLS sends an alert
    /// before it closes. A peer that closed only its sending direction counts as disconnected.
    pub(crate) fn is_open_both_ways(&self) -> bool {
        let mut watched = [PollFd::new(self, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        match poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => !watched[0].revents().intersects(gone),
            Err(_) => true,
        }
    }

    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => (&*s).write_all(bytes),
            Stream::Unix(s) => (&*s).write_all(bytes),
        }
    }
}

/// For TLS, which reads and writes through traits.
impl Read for &Stream {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        Stream::read(self, place)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&*s).write(bytes),
            Stream::Unix(s) => (&*s).write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&*s).write_vectored(parts),
            Stream::Unix(s) => (&*s).write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn connections_within_the_machine_are_not_paced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        Stream::Tcp(accepted.try_clone().unwrap()).prepare(Duration::from_secs(1)).unwrap();
        assert_eq!(rustix::net::sockopt::tcp_congestion(&accepted).unwrap(), WITHIN_THE_MACHINE);
    }
}
