//! Handshakes and records with changed bytes: they are refused, without a panic.

use nagi_tls::{Handshake, Tls, TlsOptions};

use crate::pki::{Authority, client, connect, folder, options, receive, shake};

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, self.below(256) as u8),
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
    }
}

/// The number of handshakes; NAGI_HANDSHAKES sets it.
fn rounds() -> u64 {
    std::env::var("NAGI_HANDSHAKES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn changed_handshakes() {
    let (folder, authority) = (folder("hostile"), Authority::new("authority"));
    let options = TlsOptions {
        allow_connections_without_certificates: true,
        ..options(&folder.0, &authority)
    };
    let tls = Tls::open(options).unwrap();
    let alice = authority.sign("alice", "Clients", |_| {});
    let config = client(&authority, Some(&alice));
    let (mut failed, mut random) = (0, Random(0x9E37_79B9_7F4A_7C15));
    for round in 0..rounds() {
        let (mut session, mut client) = (tls.accept().unwrap(), connect(&config));
        let changed_flight = round % 2;
        for flight in 0..4 {
            let mut sent = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut sent).unwrap();
            }
            if sent.is_empty() {
                break;
            }
            if flight == changed_flight {
                random.change(&mut sent);
            }
            let mut answer = Vec::new();
            let advanced = session.advance(&sent, &mut answer);
            match advanced {
                Ok(Handshake::Continues) => {}
                Ok(Handshake::Done(_)) => break,
                Ok(Handshake::Failed(_)) | Err(_) => {
                    failed += 1;
                    break;
                }
            }
            if receive(&mut client, &answer).is_err() {
                break;
            }
        }
    }
    assert!(failed > rounds() / 3, "{failed} of {}", rounds());
}

#[test]
fn changed_records() {
    let (folder, authority) = (folder("records"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let alice = authority.sign("alice", "Clients", |_| {});
    let (config, mut random) = (client(&authority, Some(&alice)), Random(7));
    for _ in 0..rounds() / 10 {
        let mut client = connect(&config);
        let (mut session, _) = shake(&tls, &mut client, 5000).unwrap();
        std::io::Write::write_all(&mut client.writer(), &[1; 500]).unwrap();
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        // The version in a record of TLS 1.3 means nothing.
        let at = match random.below(sent.len()) {
            1 | 2 => 0,
            at => at,
        };
        sent[at] ^= 1 << random.below(8);
        let mut place = [0; 600];
        // A longer record, of which the rest is missing, is the end of the stream.
        let read = session.read(&mut &sent[..], &mut place);
        assert!(read.is_err() || read.is_ok_and(|count| count == 0));
        session.close(&mut Vec::new());
    }
}
