//! Handshakes and records: bytes of any kind, and those of a real client with changes, also in its certificate.
//!
//! The first byte of the input says what is changed, the others are the changes (see `edits`). A changed certificate is
//! never accepted.
#![no_main]

mod edits;
mod growth;

use std::io::{self, Cursor};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use nagi_server::TlsMode;
use nagi_tls::{Handshake, Session, Tls, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SignatureScheme};

/// The server, and what its clients have.
struct World {
    tls: Arc<Tls>,
    roots: Arc<RootCertStore>,
    certificate: CertificateDer<'static>,
    key: Arc<dyn SigningKey>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("an authority");
    let issuer = Issuer::new(params, key);
    let sign = || {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        (params.signed_by(&key, &issuer).expect("a certificate"), key)
    };
    let folder = PathBuf::from(format!("/dev/shm/nagi-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).expect("a file");
        Some(folder.join(name))
    };
    let (server, server_key) = sign();
    let options = TlsOptions {
        certificate_key_file: write("server.pem", server.pem() + &server_key.serialize_pem()),
        ca_file: write("ca.pem", authority.pem()),
        allow_connections_without_certificates: true,
        quiet_without_certificate: true,
        ..TlsOptions::new(TlsMode::Require)
    };
    let tls = Tls::open(options).expect("good files");
    let _ = std::fs::remove_dir_all(&folder);
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    let (client, client_key) = sign();
    let der = PrivateKeyDer::try_from(client_key.serialize_der()).expect("a key");
    let key = rustls::crypto::ring::sign::any_supported_type(&der).expect("a key");
    World { tls, roots: Arc::new(roots), certificate: client.der().clone(), key }
});

/// Shows this certificate, whether it fits or not.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn client(old: bool, certificate: Option<CertificateDer<'static>>) -> ClientConnection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[_] = if old { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("known versions")
        .with_root_certificates(WORLD.roots.clone());
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(der) => {
            let shown = CertifiedKey::new(vec![der], WORLD.key.clone());
            builder.with_client_cert_resolver(Arc::new(Shows(Arc::new(shown))))
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = data.split_first() else { return };
    if kind & 1 == 0 {
        let mut session = WORLD.tls.accept().expect("a session");
        raw(&mut session, usize::from(kind >> 1) + 1, input);
    } else {
        changed(*kind, input);
    }
    growth::check();
});

/// Bytes of any kind, in pieces.
fn raw(session: &mut Session, piece: usize, input: &[u8]) {
    for piece in input.chunks(piece) {
        match session.advance(piece, &mut io::sink()) {
            Ok(Handshake::Continues) => {}
            _ => return,
        }
    }
    let _ = session.is_within_record();
}

/// A real client; one of its flights, its certificate or its first records are changed.
fn changed(kind: u8, input: &[u8]) {
    let (old, flight, within) = (kind & 2 != 0, usize::from(kind >> 2) % 4, kind & 16 != 0);
    let mut der = WORLD.certificate.to_vec();
    let is_other = within && edits::apply(input, &mut der);
    let shows = kind & 32 != 0 || within;
    let mut client = client(old, shows.then(|| CertificateDer::from(der)));
    let mut session = WORLD.tls.accept().expect("a session");
    for round in 0..4 {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("a write to memory");
        }
        if sent.is_empty() {
            return;
        }
        if !within && round == flight {
            edits::apply(input, &mut sent);
        }
        let mut answer = Vec::new();
        match session.advance(&sent, &mut answer) {
            Ok(Handshake::Continues) => {}
            Ok(Handshake::Done(peer)) => {
                assert!(!is_other || peer.certificate.is_none(), "accepted a changed certificate");
                receive(&mut client, &answer);
                return records(&mut session, &mut client, input);
            }
            Ok(Handshake::Failed(reason)) => {
                assert!(!reason.is_empty());
                return;
            }
            Err(_) => return,
        }
        receive(&mut client, &answer);
    }
}

fn receive(client: &mut ClientConnection, mut answer: &[u8]) {
    while !answer.is_empty() && client.read_tls(&mut answer).is_ok() {
        let _ = client.process_new_packets();
    }
}

/// Records after the handshake, with changes.
fn records(session: &mut Session, client: &mut ClientConnection, input: &[u8]) {
    let _ = io::Write::write_all(&mut client.writer(), &[7; 3000]);
    let mut sent = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut sent).expect("a write to memory");
    }
    edits::apply(input, &mut sent);
    let (mut socket, mut place) = (Cursor::new(sent), [0; 1024]);
    while matches!(session.read(&mut socket, &mut place), Ok(1..)) {}
    let _ = session.write_all(&mut io::sink(), &place);
    session.shrink();
    session.close(&mut io::sink());
}
