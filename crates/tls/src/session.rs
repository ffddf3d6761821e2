//! One connection with TLS: its handshake, and the bytes that it carries.
//!
//! ```text
//!   socket -> incoming (16 KiB, one system call) -> rustls: records -> plaintext -> the caller's buffer
//!   the caller's buffer -> rustls: records, up to 64 KiB -> socket
//! ```
//!
//! rustls takes at most 4 KiB from its source at a time; reading into a buffer of our own saves three of four calls.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use nagi_server::TlsPeer;
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection};

use crate::certificate::Facts;
use crate::material::{Material, now_ms};
use crate::reason;

/// What one call of the kernel may return: a record of the largest size, with its header and tag.
const INCOMING_BYTES: usize = 16 * 1024 + 512;

/// The server's side of a connection with TLS.
pub struct Session {
    material: Arc<Material>,
    connection: ServerConnection,
    /// Encrypted bytes that were read and not yet handled: `incoming[start..end]`. Empty while the connection is idle.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    records: Records,
}

/// The state of a handshake after bytes were handled.
#[derive(Debug)]
pub enum Handshake {
    /// The peer has to send more.
    Continues,
    Done(TlsPeer),
    /// It failed; the text is for the log.
    Failed(String),
}

/// Follows the boundaries of records, to know if the peer stopped within one.
#[derive(Debug, Default)]
struct Records {
    header: [u8; 5],
    header_bytes: usize,
    /// The bytes of the current record that are missing, once its header is complete.
    missing: usize,
}

impl Records {
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            if self.missing > 0 {
                let taken = self.missing.min(bytes.len());
                self.missing -= taken;
                bytes = &bytes[taken..];
                continue;
            }
            self.header[self.header_bytes] = *first;
            self.header_bytes += 1;
            bytes = &bytes[1..];
            if self.header_bytes == self.header.len() {
                self.missing = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                self.header_bytes = 0;
            }
        }
    }

    fn is_within(&self) -> bool {
        self.header_bytes > 0 || self.missing > 0
    }
}

impl Session {
    pub(crate) fn new(material: Arc<Material>) -> Result<Session, String> {
        let connection = ServerConnection::new(material.config.clone());
        let connection = connection.map_err(|error| error.to_string())?;
        let (incoming, records) = (Vec::new(), Records::default());
        Ok(Session { material, connection, incoming, start: 0, end: 0, records })
    }

    /// Handles bytes of the handshake that were read from the peer, and writes what answers them.
    pub fn advance(&mut self, mut bytes: &[u8], socket: &mut dyn Write) -> io::Result<Handshake> {
        self.records.follow(bytes);
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes)?;
            if let Err(error) = self.connection.process_new_packets() {
                // The alert. A peer that has disconnected needs none.
                let _ = self.flush(socket);
                return Ok(Handshake::Failed(reason::text(&error)));
            }
        }
        self.flush(socket)?;
        match self.connection.is_handshaking() {
            true => Ok(Handshake::Continues),
            false => Ok(self.finished()),
        }
    }

    /// Establishes who the peer is.
    fn finished(&self) -> Handshake {
        let is_13 = self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let mut peer = TlsPeer {
            version: if is_13 { "1.3" } else { "1.2" },
            certificate: None,
            server_name: self.connection.server_name().map(str::to_owned),
        };
        let chain = self.connection.peer_certificates().filter(|chain| !chain.is_empty());
        match (&self.material.verifier, chain) {
            (Some(verifier), Some(chain)) => {
                let is_resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
                // A resumed session has the certificate of the first one, which may have expired since.
                let verified = match is_resumed || verifier.lenient {
                    true => verifier.check(chain),
                    false => Ok(()),
                };
                match verified {
                    Ok(()) => match Facts::read(&chain[0]) {
                        Ok(facts) => {
                            self.warn_of_expiry(&facts);
                            peer.certificate = Some(facts.into_client());
                        }
                        Err(why) if verifier.lenient => warn_of_invalid(&why),
                        Err(why) => return Handshake::Failed(why),
                    },
                    Err(error) if verifier.lenient => warn_of_invalid(&reason::text(&error)),
                    Err(error) => return Handshake::Failed(reason::text(&error)),
                }
            }
            (Some(_), None) if !self.material.options.quiet_without_certificate => {
                log::warn!(target: "NETWORK", id = 23234; "No SSL certificate provided by peer");
            }
            _ => {}
        }
        self.material.counts.add(is_13);
        Handshake::Done(peer)
    }

    /// Returns true if connections of this version are to be logged.
    pub fn is_logged(&self, peer: &TlsPeer) -> bool {
        self.material.options.logged[usize::from(peer.version == "1.3")]
    }

    fn warn_of_expiry(&self, facts: &Facts) {
        let days = (facts.expires_ms - now_ms()) / 86_400_000;
        if days < i64::from(self.material.options.expiry_warning_days) {
            log::warn!(target: "NETWORK", id = 23221, peerSubject = facts.subject.as_str(), days = days;
                "Peer certificate expires soon");
        }
    }

    /// Reads decrypted bytes into `place`; 0 means the end of the stream.
    ///
    /// # Errors
    /// Those of the socket (a timeout is one), and `InvalidData` if the peer breaks the protocol.
    pub fn read(&mut self, socket: &mut dyn Read, place: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(place) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if self.start == self.end {
                if self.incoming.is_empty() {
                    self.incoming = vec![0; INCOMING_BYTES];
                }
                (self.start, self.end) = (0, socket.read(&mut self.incoming)?);
                self.records.follow(&self.incoming[..self.end]);
            }
            let mut bytes = &self.incoming[self.start..self.end];
            self.connection.read_tls(&mut bytes)?;
            self.start = self.end - bytes.len();
            self.connection
                .process_new_packets()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Encrypts and writes all bytes.
    pub fn write_all(&mut self, socket: &mut dyn Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(socket)?;
        }
        self.flush(socket)
    }

    fn flush(&mut self, socket: &mut dyn Write) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(socket)?;
        }
        Ok(())
    }

    /// Tells the peer that no more bytes follow, or why.
    pub fn close(&mut self, socket: &mut dyn Write) {
        self.connection.send_close_notify();
        // A peer that has disconnected does not need to know.
        let _ = self.flush(socket);
    }

    /// Returns true if the peer has sent a part of a record.
    pub fn is_within_record(&self) -> bool {
        self.records.is_within()
    }

    /// Frees the buffer of an idle connection.
    pub fn shrink(&mut self) {
        if self.start == self.end {
            self.incoming = Vec::new();
        }
    }
}

fn warn_of_invalid(why: &str) {
    log::warn!(target: "NETWORK", id = 23236, reason = why; "SSL peer certificate validation failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_followed_across_reads() {
        let stream =
            [&[22, 3, 1, 0, 3, 1, 2, 3][..], &[23, 3, 3, 0, 0], &[21, 3, 3, 1, 1]].concat();
        let stream = [stream, vec![0; 257]].concat();
        for size in 1..20 {
            let (mut records, mut at) = (Records::default(), 0);
            for part in stream.chunks(size) {
                records.follow(part);
                at += part.len();
                assert_eq!(
                    records.is_within(),
                    ![8, 13, stream.len()].contains(&at),
                    "{size} {at}"
                );
            }
        }
    }
}
