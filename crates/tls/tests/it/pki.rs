//! Certificates, a client, and the exchange of bytes between the two sides.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nagi_server::{TlsMode, TlsPeer};
use nagi_tls::{Handshake, Session, Tls, TlsOptions};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A folder that is removed in the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("nagi-tls-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

/// An authority.
pub(crate) struct Authority {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        Authority::with(name, |_| {})
    }

    pub(crate) fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Another authority whose certificate this one signed.
    pub(crate) fn below(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key of `CN=name,OU=unit,O=Nagi` as PEM.
    pub(crate) fn sign(
        &self,
        name: &str,
        unit: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> String {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Nagi");
        params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        certificate.pem() + &key.serialize_pem()
    }
}

/// MongoDB's extension with one role.
pub(crate) fn role(role: &str, database: &str) -> CustomExtension {
    let text = |text: &str| [vec![0x0C, text.len() as u8], text.as_bytes().to_vec()].concat();
    let pair = [text(role), text(database)].concat();
    let sequence = [vec![0x30, pair.len() as u8], pair].concat();
    let set = [vec![0x31, sequence.len() as u8], sequence].concat();
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 34601, 2, 1, 1], set)
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The options of a server with a certificate of this authority, which also signs those of clients.
pub(crate) fn options(folder: &Path, authority: &Authority) -> TlsOptions {
    let server = authority.sign("server", "Servers", |_| {});
    TlsOptions {
        certificate_key_file: Some(write(folder, "server.pem", &server)),
        ca_file: Some(write(folder, "ca.pem", &authority.pem)),
        ..TlsOptions::new(TlsMode::Require)
    }
}

/// The configuration of a client with a certificate, or without.
pub(crate) fn client(authority: &Authority, pem: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match pem {
        None => builder.with_no_client_auth(),
        Some(pem) => builder
            .with_client_auth_cert(
                CertificateDer::pem_slice_iter(pem.as_bytes()).map(|der| der.unwrap()).collect(),
                PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap(),
            )
            .unwrap(),
    })
}

pub(crate) fn connect(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(config.clone(), name).unwrap()
}

/// Runs a handshake in pieces of `piece` bytes. Returns the server's session and what it knows of the client.
pub(crate) fn shake(
    tls: &Arc<Tls>,
    client: &mut ClientConnection,
    piece: usize,
) -> Result<(Session, TlsPeer), String> {
    let mut session = tls.accept()?;
    for _ in 0..10 {
        let mut from_client = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut from_client).unwrap();
        }
        let mut from_server = Vec::new();
        let mut done = None;
        for bytes in from_client.chunks(piece) {
            match session.advance(bytes, &mut from_server).unwrap() {
                Handshake::Continues => {}
                Handshake::Done(peer) => done = Some(peer),
                Handshake::Failed(reason) => return Err(reason),
            }
        }
        receive(client, &from_server)?;
        if let Some(peer) = done {
            return Ok((session, peer));
        }
    }
    Err("the handshake does not end".to_owned())
}

pub(crate) fn receive(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<(), String> {
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().map_err(|error| format!("client: {error}"))?;
    }
    Ok(())
}

/// Sends a text from the client to the server and back.
pub(crate) fn echo(session: &mut Session, client: &mut ClientConnection, text: &[u8]) {
    client.writer().write_all(text).unwrap();
    let mut sent = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut sent).unwrap();
    }
    let (mut socket, mut got, mut place) = (&sent[..], Vec::new(), [0; 1000]);
    while got.len() < text.len() {
        let count = session.read(&mut socket, &mut place).unwrap();
        got.extend_from_slice(&place[..count]);
    }
    assert_eq!(got, text);
    assert!(!session.is_within_record());
    let mut back = Vec::new();
    session.write_all(&mut back, &got).unwrap();
    receive(client, &back).unwrap();
    let mut seen = vec![0; text.len()];
    client.reader().read_exact(&mut seen).unwrap();
    assert_eq!(seen, text);
}
