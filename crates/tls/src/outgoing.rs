//! TLS of a connection to another server: a KMIP server that has keys.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::key;
use crate::material::{authorities, certificates, read};

/// The files of an outgoing connection.
pub struct Outgoing<'f> {
    /// The authorities that may have signed the server's certificate.
    pub ca_file: &'f Path,
    /// The certificate and key with which this side authenticates.
    pub certificate_file: Option<&'f Path>,
    /// The password of the key.
    pub password: Option<&'f str>,
}

impl Outgoing<'_> {
    /// Wraps a connected socket. The handshake takes place with the first write; its errors are those of the stream.
    ///
    /// # Errors
    /// A text that names the file which cannot be used.
    pub fn begin<S: Read + Write>(
        &self,
        host: &str,
        socket: S,
    ) -> Result<StreamOwned<ClientConnection, S>, String> {
        let unusable = |path: &Path, why: String| format!("{}: {why}", path.display());
        let roots = authorities(self.ca_file).map_err(|why| unusable(self.ca_file, why))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match self.certificate_file {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let sections = read(path).map_err(|why| unusable(path, why))?;
                let key = key::find(&sections, self.password)
                    .and_then(|key| key.ok_or_else(|| "the file has no private key".to_owned()))
                    .map_err(|why| unusable(path, why))?;
                builder
                    .with_client_auth_cert(certificates(&sections), key)
                    .map_err(|error| unusable(path, error.to_string()))?
            }
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("'{host}' is neither a host's name nor an address"))?;
        let connection =
            ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
        Ok(StreamOwned::new(connection, socket))
    }
}
