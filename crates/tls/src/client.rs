//! Connections with TLS that this program opens: `nagi backup` and `nagi ping` to a server, a server to LDAP and KMIP
//! servers.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, RootCertStore, SignatureScheme, StreamOwned,
};
use webpki::EndEntityCert;
use zeroize::Zeroizing;

use crate::authorities::{Authorities, Limits};
use crate::{key, material, reason};

/// What a client is told about certificates, with the names of MongoDB's connection strings.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// `tlsCAFile`; without it the authorities of the system are trusted.
    pub ca_file: Option<PathBuf>,
    /// `tlsCertificateKeyFile`
    pub certificate_key_file: Option<PathBuf>,
    /// `tlsCertificateKeyFilePassword`
    pub certificate_key_password: Option<Zeroizing<String>>,
    /// `tlsAllowInvalidCertificates`
    pub allow_invalid_certificates: bool,
    /// `tlsAllowInvalidHostnames`
    pub allow_invalid_hostnames: bool,
}

/// Without the password.
impl fmt::Debug for ClientFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFiles")
            .field("ca_file", &self.ca_file)
            .field("certificate_key_file", &self.certificate_key_file)
            .field("allow_invalid_certificates", &self.allow_invalid_certificates)
            .field("allow_invalid_hostnames", &self.allow_invalid_hostnames)
            .finish_non_exhaustive()
    }
}

/// Opens connections with TLS.
pub struct Connector(Arc<ClientConfig>);

/// A connection whose handshake has ended.
pub struct Secured<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// A text that names the file.
    pub fn new(files: &ClientFiles) -> Result<Connector, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(ServerVerifier::new(files, &provider)?);
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let Some(path) = &files.certificate_key_file else {
            return Ok(Connector(Arc::new(builder.with_no_client_auth())));
        };
        let named = |why: String| format!("tlsCertificateKeyFile {}: {why}", path.display());
        let sections = material::read(path).map_err(named)?;
        let chain = material::certificates(&sections);
        if chain.is_empty() {
            return Err(named("the file has no certificate".to_owned()));
        }
        let password = files.certificate_key_password.as_ref().map(|text| text.as_str());
        let key = key::find(&sections, password).map_err(named)?;
        let key = key.ok_or_else(|| named("the file has no private key".to_owned()))?;
        let config = builder.with_client_auth_cert(chain, key);
        Ok(Connector(Arc::new(config.map_err(|error| named(error.to_string()))?)))
    }

    /// Runs the handshake with the server that was addressed as `host`, a name or an address without port.
    ///
    /// # Errors
    /// A text: the certificate is not accepted, the server refuses, or the socket fails.
    pub fn connect<S: Read + Write>(&self, host: &str, socket: S) -> Result<Secured<S>, String> {
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| format!("'{host}' is not a name that a certificate can have"))?;
        let connection = ClientConnection::new(self.0.clone(), name);
        let mut stream = StreamOwned::new(connection.map_err(|error| error.to_string())?, socket);
        while stream.conn.is_handshaking() {
            if let Err(error) = stream.conn.complete_io(&mut stream.sock) {
                let said = is_closed(&error).then(|| refusal(&mut stream)).flatten();
                return Err(told(&said.unwrap_or(error)));
            }
        }
        Ok(Secured(stream))
    }
}

/// Why the server has closed the connection, if it said so: its last record may still wait in the socket when a write
/// fails.
fn refusal<S: Read + Write>(stream: &mut StreamOwned<ClientConnection, S>) -> Option<io::Error> {
    stream.conn.read_tls(&mut stream.sock).ok()?;
    stream.conn.process_new_packets().err().map(io::Error::other)
}

/// Whether the other side has closed the connection, so that reading from it does not wait.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// An error of a handshake, or of a connection with TLS, for the user.
fn told(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(why)) => {
            format!("the certificate of the server is not accepted: {}", reason::of_server(why))
        }
        // A server without TLS answers so, too.
        Some(Error::AlertReceived(AlertDescription::HandshakeFailure)) => {
            "the server refuses the handshake: it has no TLS, or no version or cipher suite in common".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("the server refuses the handshake: {alert:?}"),
        Some(Error::InvalidMessage(_)) => {
            "the server does not answer with TLS: it may have none at this port".to_owned()
        }
        Some(other) => reason::text(other),
        None => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                "the server has not answered the TLS handshake in time".to_owned()
            }
            io::ErrorKind::UnexpectedEof => {
                "the server closes the connection in the TLS handshake".to_owned()
            }
            _ => error.to_string(),
        },
    }
}

impl<S: Read + Write> Secured<S> {
    /// The socket below.
    pub fn get_mut(&mut self) -> &mut S {
        self.0.get_mut()
    }

    /// The error of a write, or the refusal of a client's certificate that it follows from.
    fn explained(&mut self, error: io::Error) -> io::Error {
        match is_closed(&error).then(|| refusal(&mut self.0)).flatten() {
            Some(said) => io::Error::other(told(&said)),
            None => error,
        }
    }
}

impl<S: Read + Write> Read for Secured<S> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(place);
        read.map_err(|error| match error.get_ref() {
            // A server that refuses a client's certificate says so after the client's handshake has ended.
            Some(inner) if inner.is::<Error>() => io::Error::other(told(&error)),
            // What was left to write is written before reading.
            _ => self.explained(error),
        })
    }
}

impl<S: Read + Write> Write for Secured<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes);
        written.map_err(|error| self.explained(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.flush();
        flushed.map_err(|error| self.explained(error))
    }
}

/// Verifies a server, as far as the options say.
#[derive(Debug)]
struct ServerVerifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// `None`: every certificate is accepted.
    strict: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates of the file of authorities; one of them may be the server's own.
    trusted: Vec<CertificateDer<'static>>,
    any_name: bool,
}

impl ServerVerifier {
    fn new(files: &ClientFiles, provider: &Arc<CryptoProvider>) -> Result<ServerVerifier, String> {
        let mut verifier = ServerVerifier {
            algorithms: provider.signature_verification_algorithms,
            strict: None,
            trusted: Vec::new(),
            any_name: files.allow_invalid_hostnames,
        };
        let mut roots = RootCertStore::empty();
        match &files.ca_file {
            Some(path) => {
                let named = |why: String| format!("tlsCAFile {}: {why}", path.display());
                let sections = material::read(path).map_err(named)?;
                verifier.trusted = material::certificates(&sections);
                let all = Authorities::new(verifier.trusted.clone()).map_err(named)?;
                roots.roots = all.anchors;
            }
            None if files.allow_invalid_certificates => return Ok(verifier),
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    return Err(
                        "this system has no certificates of authorities: use tlsCAFile".to_owned()
                    );
                }
            }
        }
        if !files.allow_invalid_certificates {
            let strict =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            verifier.strict = Some(strict.build().map_err(|error| error.to_string())?);
        }
        Ok(verifier)
    }

    /// Checks a certificate that is itself in the file of authorities.
    fn check_trusted(
        &self,
        end: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let limits = Limits::read(end).map_err(|_| CertificateError::BadEncoding)?;
        limits.check_time(now).map_err(reason::refusal)?;
        let certificate = EndEntityCert::try_from(end).map_err(reason::refusal)?;
        match certificate.verify_is_valid_for_subject_name(name) {
            Err(error) if !self.any_name => Err(reason::refusal(error)),
            _ => Ok(()),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(strict) = &self.strict else { return Ok(ServerCertVerified::assertion()) };
        if self.trusted.iter().any(|known| known == end) {
            return self.check_trusted(end, name, now).map(|()| ServerCertVerified::assertion());
        }
        // The name is compared after everything else.
        match strict.verify_server_cert(end, rest, name, stapled, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            // What signs itself has no other issuer that could be known.
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if Limits::read(end).is_ok_and(|limits| limits.is_self_issued()) =>
            {
                Err(reason::self_signed())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
