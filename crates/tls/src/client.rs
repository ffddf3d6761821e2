//! The client's side of TLS, for connections of this server to other services.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::material;

/// Whose certificates are accepted.
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Trusts the authorities of a file; without one those of the system: the files that `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name, or the distribution's.
    ///
    /// # Errors
    /// A text that names the file.
    pub fn new(authorities: Option<&Path>) -> Result<ClientTls, String> {
        let roots = match authorities {
            Some(path) => material::authorities(path)
                .map_err(|why| format!("Can not set up CA file. {}: {why}", path.display()))?,
            None => of_system()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(ClientTls { config: Arc::new(config) })
    }

    /// Does the handshake on a connected stream. `host`: the name or address that the certificate must have.
    ///
    /// # Errors
    /// A text for the log.
    pub fn connect<S: Read + Write>(
        &self,
        host: &str,
        mut stream: S,
    ) -> Result<ClientStream<S>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("'{host}' cannot be the name in a certificate"))?;
        let mut session =
            ClientConnection::new(self.config.clone(), name).map_err(|error| error.to_string())?;
        while session.is_handshaking() {
            session
                .complete_io(&mut stream)
                .map_err(|error| format!("the TLS handshake failed: {error}"))?;
        }
        Ok(ClientStream(StreamOwned::new(session, stream)))
    }
}

/// The authorities that the system trusts.
fn of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Distributions contain certificates that webpki does not accept; they would not be needed.
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        true => {
            Err("the system has no certificates of authorities (package ca-certificates)".into())
        }
        false => Ok(roots),
    }
}

/// A connection with TLS.
pub struct ClientStream<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl<S: Read + Write> ClientStream<S> {
    /// The stream below.
    pub fn get_mut(&mut self) -> &mut S {
        self.0.get_mut()
    }
}

impl<S: Read + Write> Read for ClientStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Read + Write> Write for ClientStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
