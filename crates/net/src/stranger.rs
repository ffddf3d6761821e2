//! Detects clients of other protocols at the database port: browsers, health checks, drivers with TLS enabled.
//!
//! The first bytes of a connection reveal the protocol. Without this check, the first bytes of a TLS handshake can look
//! like the length of a message of several megabytes, and the client would wait until the server's timeout.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::stream::Stream;

/// The protocol that a client uses instead of MongoDB's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    Http,
    Tls,
}

/// The first bytes of HTTP requests. Each one, read as a little-endian length, exceeds the largest message.
const HTTP_METHODS: &[&[u8]] =
    &[b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "];

/// The part of a TLS record that is checked, with the beginning of a ClientHello: type, version, length; type, length,
/// version.
const HELLO_BYTES: usize = 11;

/// MongoDB's reply to a browser, with its text.
const HTTP_REPLY: &[u8] = b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 85\r\n\r\n\
    It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n";

/// A fatal alert (handshake_failure) in a record of TLS 1.0, which every version can read.
const TLS_ALERT: &[u8] = &[0x15, 3, 1, 0, 2, 2, 40];

/// How much of such a request is read after the reply: closing a socket with unread bytes would reset the connection,
/// and the reply could be lost.
const DRAINED_BYTES_MAX: usize = 64 * 1024;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

impl Stranger {
    /// Checks the first bytes of a connection. `None`: a MongoDB message, or too few bytes.
    pub(crate) fn recognise(front: &[u8]) -> Option<Stranger> {
        let method = front.first_chunk::<4>()?;
        if HTTP_METHODS.contains(&&method[..]) {
            return Some(Stranger::Http);
        }
        // In a client's MongoDB request the last two bytes are in `responseTo`, which is 0.
        match *front.first_chunk::<HELLO_BYTES>()? {
            [0x16, 3, 0..=4, _, _, 1, 0, _, _, 3, 0..=4] => Some(Stranger::Tls),
            _ => None,
        }
    }

    /// The reason in the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Stranger::Http => "Client sent an HTTP request over a native MongoDB connection",
            Stranger::Tls => "SSL handshake received but server is started without SSL support",
        }
    }

    /// Replies in the client's own protocol, so that it does not have to wait for a timeout.
    pub(crate) fn answer(self, stream: &Stream) {
        let reply = match self {
            Stranger::Http => HTTP_REPLY,
            Stranger::Tls => TLS_ALERT,
        };
        // A client that has disconnected needs no reply.
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
        // A message of 790 bytes (0x0316) with request id 256 begins with the same bytes as a handshake.
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
