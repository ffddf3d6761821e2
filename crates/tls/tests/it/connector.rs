//! The other side: this program as a client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use nagi_server::TlsPeer;
use nagi_tls::{ClientFiles, Connector, Handshake, Tls, TlsOptions};

use crate::pki::{Authority, folder, options, write};

/// A server that sends back what it gets, once. Returns who connected.
fn serve(tls: Arc<Tls>, mut socket: UnixStream) -> JoinHandle<Result<TlsPeer, String>> {
    std::thread::spawn(move || {
        let mut session = tls.accept()?;
        let mut place = [0; 4096];
        let peer = loop {
            let count = socket.read(&mut place).map_err(|error| error.to_string())?;
            match session.advance(&place[..count], &mut socket).map_err(|e| e.to_string())? {
                Handshake::Continues if count == 0 => return Err("closed".to_owned()),
                Handshake::Continues => {}
                Handshake::Done(peer) => break peer,
                Handshake::Failed(reason) => return Err(reason),
            }
        };
        let mut got = [0; 5];
        let mut have = 0;
        while have < got.len() {
            match session.read(&mut socket, &mut got[have..]).map_err(|e| e.to_string())? {
                0 => return Err("closed".to_owned()),
                count => have += count,
            }
        }
        session.write_all(&mut socket, &got).map_err(|e| e.to_string())?;
        Ok(peer)
    })
}

/// What the client sees (an error or ""), and the server.
fn exchange(tls: &Arc<Tls>, files: &ClientFiles, host: &str) -> (String, Result<TlsPeer, String>) {
    let (own, other) = UnixStream::pair().unwrap();
    let server = serve(tls.clone(), other);
    let seen = Connector::new(files).and_then(|connector| {
        let mut stream = connector.connect(host, own)?;
        let mut got = [0; 5];
        stream.write_all(b"hello").map_err(|error| error.to_string())?;
        stream.read_exact(&mut got).map_err(|error| error.to_string())?;
        assert_eq!(&got, b"hello");
        Ok(String::new())
    });
    (seen.unwrap_or_else(|error| error), server.join().unwrap())
}

#[test]
fn servers_are_verified() {
    let (folder, authority) = (folder("verified"), Authority::new("authority"));
    let other = Authority::new("other");
    let tls = Tls::open(TlsOptions { ca_file: None, ..options(&folder.0, &authority) }).unwrap();
    let trusts = |authority: &Authority, name: &str| ClientFiles {
        ca_file: Some(write(&folder.0, name, &authority.pem)),
        ..ClientFiles::default()
    };
    let (good, wrong) = (trusts(&authority, "a.pem"), trusts(&other, "b.pem"));
    let any_name = ClientFiles { allow_invalid_hostnames: true, ..good.clone() };
    let other_and_name = ClientFiles { allow_invalid_hostnames: true, ..wrong.clone() };
    let anything = ClientFiles { allow_invalid_certificates: true, ..wrong.clone() };
    let nothing = ClientFiles { allow_invalid_certificates: true, ..ClientFiles::default() };
    for (files, host, says) in [
        (&good, "localhost", ""),
        (&good, "elsewhere", "host: 'elsewhere' was asked for, the names in it are: localhost"),
        (&good, "[::1]", "it is that of another host: '::1' was asked for"),
        (&any_name, "elsewhere", ""),
        (&wrong, "localhost", "unable to get local issuer certificate"),
        (&other_and_name, "localhost", "unable to get local issuer certificate"),
        (&anything, "elsewhere", ""),
        (&nothing, "elsewhere", ""),
        (&good, "not a name", "is not a name that a certificate can have"),
    ] {
        let (seen, _) = exchange(&tls, files, host);
        assert!(seen.contains(says) && seen.is_empty() == says.is_empty(), "{host}: {seen}");
    }
}

/// The text says what is wrong with a certificate of the server, and when.
#[test]
fn refused_certificates_are_explained() {
    let (folder, authority) = (folder("explained"), Authority::new("authority"));
    let good = options(&folder.0, &authority);
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = own.cert.pem() + &own.signing_key.serialize_pem();
    let own = Some(write(&folder.0, "own.pem", &pem));
    let tls = Tls::open(TlsOptions { ca_file: None, certificate_key_file: own, ..good }).unwrap();
    let files = ClientFiles { ca_file: Some(folder.0.join("ca.pem")), ..ClientFiles::default() };
    let (seen, _) = exchange(&tls, &files, "localhost");
    assert!(seen.ends_with("not accepted: self-signed certificate"), "{seen}");
}

#[test]
fn certificates_are_shown() {
    let (folder, authority) = (folder("shown"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let pem = |name: &str, text: &str| Some(write(&folder.0, name, text));
    let files =
        ClientFiles { ca_file: pem("trusted.pem", &authority.pem), ..ClientFiles::default() };
    let alice = authority.sign("alice", "Clients", |_| {});
    let with = ClientFiles { certificate_key_file: pem("alice.pem", &alice), ..files.clone() };
    let (seen, peer) = exchange(&tls, &with, "localhost");
    assert_eq!(seen, "");
    assert_eq!(peer.unwrap().certificate.unwrap().subject, "CN=alice,OU=Clients,O=Nagi");
    let (seen, _) = exchange(&tls, &files, "localhost");
    assert_eq!(seen, "the server refuses the handshake: CertificateRequired");
    for (text, says) in [("", "has no certificate"), (&authority.pem, "has no private key")] {
        let bad = ClientFiles { certificate_key_file: pem("bad.pem", text), ..files.clone() };
        let error = Connector::new(&bad).err().unwrap();
        assert!(error.contains(says) && error.contains("bad.pem"), "{error}");
    }
    let missing = ClientFiles { ca_file: Some("/nowhere.pem".into()), ..ClientFiles::default() };
    assert!(
        Connector::new(&missing).err().unwrap().contains("tlsCAFile /nowhere.pem: No such file")
    );
}

/// A server that refuses a client's certificate may have closed the connection before the client writes.
#[test]
fn a_refusal_before_the_first_write() {
    let (folder, authority) = (folder("refusal"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let ca_file = Some(write(&folder.0, "trusted.pem", &authority.pem));
    let files = ClientFiles { ca_file, ..ClientFiles::default() };
    let (own, other) = UnixStream::pair().unwrap();
    let server = serve(tls, other);
    let mut stream = Connector::new(&files).unwrap().connect("localhost", own).unwrap();
    server.join().unwrap().unwrap_err();
    let written = stream.write_all(b"hello").and_then(|()| stream.flush());
    let error = written.and_then(|()| stream.read_exact(&mut [0; 5])).unwrap_err();
    assert_eq!(error.to_string(), "the server refuses the handshake: CertificateRequired");
}

#[test]
fn a_server_without_tls() {
    let (own, mut other) = UnixStream::pair().unwrap();
    let plain = std::thread::spawn(move || {
        let mut place = [0; 4096];
        let _ = other.read(&mut place);
        let _ = other.write_all(&[b'x'; 64]);
    });
    let files = ClientFiles { allow_invalid_certificates: true, ..ClientFiles::default() };
    let error = Connector::new(&files).unwrap().connect("localhost", own).err().unwrap();
    assert_eq!(error, "the server does not answer with TLS: it may have none at this port");
    plain.join().unwrap();
}
