//! Clients of other protocols at the plain port: browsers, health checks, drivers with TLS switched on.
//!
//! The first bytes of a connection tell. Without this the first bytes of a TLS handshake can pass for the
//! length of a message of some megabytes, and the client waits until the server gives up on it.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::stream::Stream;

/// What a client speaks instead of MongoDB's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    Http,
    Tls,
}

/// Beginnings of HTTP requests. As a little-endian length each is beyond the largest message.
const HTTP_METHODS: &[&[u8]] =
    &[b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "];

/// Bytes of a TLS record with the beginning of a ClientHello: type, version, length; type, length,
/// version.
const HELLO_BYTES: usize = 11;

/// MongoDB's answer to a browser, also its text.
const HTTP_REPLY: &[u8] = b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 85\r\n\r\n\
    It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n";

/// A fatal alert, handshake_failure, in a record of TLS 1.0: every version reads it.
const TLS_ALERT: &[u8] = &[0x15, 3, 1, 0, 2, 2, 40];

/// What is read of a stranger's request after the reply: closing a socket with unread bytes would reset
/// the connection, and the reply might be lost.
const DRAINED_BYTES_MAX: usize = 64 * 1024;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

impl Stranger {
    /// Looks at the first bytes of a connection. `None`: a message of MongoDB's, or too few bytes.
    pub(crate) fn recognise(front: &[u8]) -> Option<Stranger> {
        let method = front.first_chunk::<4>()?;
        if HTTP_METHODS.contains(&&method[..]) {
            return Some(Stranger::Http);
        }
        // The last two bytes would lie in `responseTo`, which is 0 in a request of a client.
        match *front.first_chunk::<HELLO_BYTES>()? {
            [0x16, 3, 0..=4, _, _, 1, 0, _, _, 3, 0..=4] => Some(Stranger::Tls),
            _ => None,
        }
    }

    /// For the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Stranger::Http => "Client sent an HTTP request over a native MongoDB connection",
            Stranger::Tls => "SSL handshake received but server is started without SSL support",
        }
    }

    /// Answers in the client's own protocol, so that it need not wait for a timeout.
    pub(crate) fn answer(self, stream: &Stream) {
        let reply = match self {
            Stranger::Http => HTTP_REPLY,
            Stranger::Tls => TLS_ALERT,
        };
        // A client that has left needs no answer.
        if stream.write_all(reply).is_err() {
            return;
        }
        stream.shutdown(Shutdown::Write);
        let (began, mut drained) = (Instant::now(), 0);
        let mut place = [0; 4096];
        while drained < DRAINED_BYTES_MAX {
            let left = DRAIN_TIME_MAX.saturating_sub(began.elapsed());
            if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match stream.read(&mut place) {
                Ok(0) | Err(_) => return,
                Ok(len) => drained += len,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_strangers_from_messages() {
        let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        assert_eq!(Stranger::recognise(&tls), Some(Stranger::Tls));
        assert_eq!(Stranger::recognise(&tls[..10]), None);
        assert_eq!(Stranger::recognise(b"GET / HTTP/1.1\r\n"), Some(Stranger::Http));
        assert_eq!(Stranger::recognise(b"GE"), None);
        // A message of 790 bytes (0x0316) whose request id is 256 begins as a handshake does.
        let mut message = [0; 16];
        message[..4].copy_from_slice(&790_i32.to_le_bytes());
        message[4..8].copy_from_slice(&256_i32.to_le_bytes());
        assert_eq!(message[..6], [0x16, 3, 0, 0, 0, 1]);
        assert_eq!(Stranger::recognise(&message), None);
        for method in HTTP_METHODS {
            let header: [u8; 16] = [*method, &[b' '; 12]].concat().try_into().unwrap();
            assert!(nagi_wire::frame_len(&header).is_err());
        }
    }

    #[test]
    fn the_reply_states_its_length() {
        let (_, body) = HTTP_REPLY.split_at(HTTP_REPLY.len() - 85);
        assert!(body.starts_with(b"It looks like") && body.ends_with(b"port.\r\n"));
    }
}
