//! The echo over epoll: the system calls that `std` lacks.
//!
//! Each thread waits on the shared listener (`EPOLLEXCLUSIVE`) and on the connections it accepted itself,
//! so a connection never changes threads and nothing is locked.
#![allow(unsafe_code)] // epoll has no safe interface in std, and a benchmark needs no event library

use super::Requests;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread;

const EVENTS_MAX: usize = 64;

/// Serves on `listener` with `threads` threads until the process exits.
pub(super) fn serve(listener: &TcpListener, reply_bytes: usize, threads: usize) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| worker(listener, reply_bytes))).collect();
        for worker in workers {
            worker.join().map_err(|_| io::Error::other("a thread panicked"))??;
        }
        Ok(())
    })
}

fn worker(listener: &TcpListener, reply_bytes: usize) -> io::Result<()> {
    // SAFETY: epoll_create1 takes no pointers; a valid result is a new descriptor owned by this code.
    let poll = unsafe {
        let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let exclusive = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32;
    watch(&poll, listener.as_raw_fd(), exclusive, u64::MAX)?;
    let mut connections: Vec<Option<(TcpStream, Requests)>> = Vec::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    loop {
        // SAFETY: `events` is valid for EVENTS_MAX entries for the whole call.
        let ready = unsafe {
            libc::epoll_wait(poll.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as i32, -1)
        };
        let Ok(ready) = usize::try_from(ready) else {
            let error = io::Error::last_os_error();
            if error.kind() == ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        };
        for event in &events[..ready] {
            let token = event.u64;
            if token == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    let fd = stream.as_raw_fd();
                    connections.push(Some((stream, Requests::new(reply_bytes))));
                    watch(&poll, fd, libc::EPOLLIN as u32, connections.len() as u64 - 1)?;
                }
                continue;
            }
            let slot = &mut connections[token as usize];
            if let Some((stream, requests)) = slot
                && !answer(stream, requests)
            {
                *slot = None; // closing the socket also removes it from the poll
            }
        }
    }
}

/// Reads once and replies. Returns false when the connection is closed.
fn answer(stream: &mut TcpStream, requests: &mut Requests) -> bool {
    match stream.read(requests.space()) {
        Ok(0) => false,
        Ok(got) => {
            let count = requests.complete(got);
            // The replies fit the socket's buffer, because a client sends one request at a time.
            (0..count).all(|_| stream.write_all(&requests.reply).is_ok())
        }
        Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn watch(poll: &OwnedFd, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: token };
    // SAFETY: both descriptors are open, and `event` is valid for the call.
    let done =
        unsafe { libc::epoll_ctl(poll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
