//! The verification of client certificates: webpki's, with MongoDB's options for missing and invalid ones.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Asks for a certificate and verifies it.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) strict: Arc<dyn ClientCertVerifier>,
    /// Connections without a certificate are accepted.
    pub(crate) optional: bool,
    /// Connections with an invalid certificate are accepted, without an identity.
    pub(crate) lenient: bool,
}

impl Verifier {
    /// Verifies a chain at this time, whatever the options say.
    pub(crate) fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let (end, rest) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        self.strict.verify_client_cert(end, rest, UnixTime::now()).map(drop)
    }
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        !self.optional
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.strict.verify_client_cert(end, rest, now) {
            // Session::peer verifies again, and gives the connection no identity.
            Err(_) if self.lenient => Ok(ClientCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}
