//! Connections with TLS: beside plain ones, idle, within a handshake that does not end, and at the server's end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::doc;
use nagi_net::NetConfig;
use nagi_server::TlsMode;
use nagi_tls::{Tls, TlsOptions};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::{Running, body, is_closed, message, ping, reply, start};

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// A certificate in a file, and a client that trusts it.
struct Trust {
    tls: Arc<Tls>,
    client: Arc<ClientConfig>,
}

impl Trust {
    fn new(name: &str, mode: TlsMode) -> Trust {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let file = std::env::temp_dir().join(format!("nagi-net-{name}-{}.pem", std::process::id()));
        std::fs::write(&file, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
        let options =
            TlsOptions { certificate_key_file: Some(file.clone()), ..TlsOptions::new(mode) };
        let tls = Tls::open(options).unwrap();
        std::fs::remove_file(file).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Trust { tls, client: Arc::new(client) }
    }

    fn start(&self, name: &str, change: impl FnOnce(&mut NetConfig)) -> Running {
        start(name, 100, |net| {
            net.tls = Some(self.tls.clone());
            change(net);
        })
    }

    fn connect(&self, running: &Running) -> Encrypted {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(self.client.clone(), name).unwrap();
        StreamOwned::new(client, running.connect())
    }
}

/// The first bytes of a handshake, which does not go any further.
const BEGUN: [u8; 12] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7];

#[test]
fn plain_and_encrypted_clients_at_one_port() {
    for (mode, plain) in [(TlsMode::Allow, true), (TlsMode::Require, false)] {
        let trust = Trust::new("mode", mode);
        let running = trust.start("modes", |_| ());
        let mut encrypted = trust.connect(&running);
        for id in 1..4 {
            encrypted.write_all(&ping(id)).unwrap();
            assert_eq!(reply(&mut encrypted), (id, 1.0));
        }
        let mut stream = running.connect();
        stream.write_all(&ping(5)).unwrap();
        match plain {
            true => assert_eq!(reply(&mut stream), (5, 1.0)),
            false => assert!(is_closed(&mut stream)),
        }
        running.stop();
        assert_eq!(encrypted.read(&mut [0; 1]).unwrap(), 0, "the server says goodbye");
    }
}

#[test]
fn idle_connections_wake_up_with_their_session() {
    let trust = Trust::new("idle", TlsMode::Require);
    let running = trust.start("idle-tls", |net| net.idle_after = Duration::from_millis(1));
    let mut streams: Vec<_> = (0..20).map(|_| trust.connect(&running)).collect();
    for id in 1..20 {
        for stream in &mut streams {
            stream.write_all(&ping(id)).unwrap();
            assert_eq!(reply(stream), (id, 1.0));
        }
    }
    // A part of a record is no idle connection: the rest arrives at the same thread.
    let mut bytes = Vec::new();
    let Encrypted { conn, sock } = &mut streams[0];
    conn.writer().write_all(&ping(77)).unwrap();
    conn.write_tls(&mut bytes).unwrap();
    for part in bytes.chunks(9) {
        sock.write_all(part).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(reply(&mut streams[0]), (77, 1.0));
    // Two messages in one record.
    streams[1].write_all(&[ping(1), ping(2)].concat()).unwrap();
    assert_eq!((reply(&mut streams[1]), reply(&mut streams[1])), ((1, 1.0), (2, 1.0)));
    running.stop();
}

#[test]
fn handshakes_end_in_time() {
    let trust = Trust::new("slow", TlsMode::Require);
    let running =
        trust.start("slow-tls", |net| net.handshake_time_max = Duration::from_millis(300));
    let began = Instant::now();
    let mut stream = running.connect();
    stream.write_all(&BEGUN).unwrap();
    assert!(is_closed(&mut stream) && began.elapsed() < Duration::from_secs(20));
    running.stop();
}

#[test]
fn one_more_handshake_ends_the_oldest() {
    let trust = Trust::new("many", TlsMode::Require);
    let running = trust.start("many-tls", |net| {
        net.handshake_count_max = 4;
        net.handshake_time_max = Duration::from_secs(600);
    });
    let mut stopped: Vec<_> = (0..10).map(|_| running.connect()).collect();
    for stream in &mut stopped {
        // The first ones may be closed already.
        let _ = stream.write_all(&BEGUN);
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    }
    let has_ended = |stream: &mut TcpStream| match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    // All have been counted: one that the server counts later would end the handshake of one that began before.
    let until = Instant::now() + Duration::from_secs(20);
    while stopped.iter_mut().map(has_ended).filter(|ended| *ended).count() < 6 {
        assert!(Instant::now() < until);
    }
    // Others connect, though as many handshakes as allowed do not end.
    for id in 1..10 {
        let mut good = trust.connect(&running);
        good.write_all(&ping(id)).unwrap();
        assert_eq!(reply(&mut good), (id, 1.0));
    }
    running.stop();
}

/// A connection counts from its first byte, whatever it is the beginning of.
#[test]
fn first_bytes_count_as_a_handshake() {
    for (mode, byte) in [(TlsMode::Require, 0x16), (TlsMode::Allow, 0x16), (TlsMode::Allow, 0x30)] {
        let trust = Trust::new("first", mode);
        let running = trust.start("first-tls", |net| {
            net.handshake_count_max = 4;
            net.handshake_time_max = Duration::from_secs(600);
        });
        let mut begun: Vec<_> = (0..10).map(|_| running.connect()).collect();
        for stream in &mut begun {
            stream.write_all(&[byte]).unwrap();
        }
        // All have been counted when all but the limit were closed.
        let mut open: Vec<_> = begun.iter_mut().collect();
        let until = Instant::now() + Duration::from_secs(20);
        while open.len() > 4 {
            assert!(Instant::now() < until, "{} are open", open.len());
            open.retain_mut(|stream| {
                stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                stream.read(&mut [0; 1]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            });
        }
        for id in 1..10 {
            let mut good = trust.connect(&running);
            good.write_all(&ping(id)).unwrap();
            assert_eq!(reply(&mut good), (id, 1.0));
        }
        running.stop();
    }
}

/// The bytes of a message are verified by TLS, so its checksum is not looked at, and the reply has none.
#[test]
fn checksums_are_ignored() {
    let trust = Trust::new("sum", TlsMode::Allow);
    let running = trust.start("sum-tls", |_| ());
    let mut wrong = message("admin", doc! { "ping": 1 }.as_doc());
    wrong[16] |= 1;
    wrong.extend([1, 2, 3, 4]);
    let length = (wrong.len() as u32).to_le_bytes();
    wrong[..4].copy_from_slice(&length);
    let mut encrypted = trust.connect(&running);
    encrypted.write_all(&wrong).unwrap();
    let mut head = [0; 20];
    encrypted.read_exact(&mut head).unwrap();
    assert_eq!(head[16] & 1, 0);
    let mut plain = running.connect();
    plain.write_all(&wrong).unwrap();
    let refused = body(&mut plain);
    assert_eq!(refused.get("codeName").as_str(), Some("ChecksumMismatch"));
    running.stop();
}
