//! The verification of client certificates: webpki's, OpenSSL's checks of authorities, and MongoDB's options for
//! missing and invalid certificates.

use std::fmt;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

use crate::authorities::{Authorities, Limits};
use crate::reason;

/// Asks for a certificate and verifies it.
pub(crate) struct Verifier {
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) authorities: Authorities,
    /// The lists of revoked certificates; none: nothing is revoked.
    pub(crate) revoked: Vec<CertRevocationList<'static>>,
    /// Connections without a certificate are accepted.
    pub(crate) optional: bool,
    /// Connections with an invalid certificate are accepted, without an identity.
    pub(crate) lenient: bool,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("lenient", &self.lenient).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Verifies a chain at this time, whatever the options say.
    pub(crate) fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let (end, rest) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        self.verify(end, rest, UnixTime::now())
    }

    fn verify(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let limits = Limits::read(end).map_err(|_| CertificateError::BadEncoding)?;
        // A certificate that signs itself may be its own authority.
        if self.revoked.is_empty() && self.authorities.trusts_itself(end) {
            limits.check_time(now).map_err(reason::refusal)?;
        } else if limits.is_self_issued() {
            return Err(reason::self_signed());
        } else {
            self.verify_path(end, rest, now)?;
        }
        match limits.is_usable_by_clients() {
            true => Ok(()),
            false => Err(CertificateError::InvalidPurpose.into()),
        }
    }

    fn verify_path(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let certificate = EndEntityCert::try_from(end).map_err(reason::refusal)?;
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::EndEntity)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let verified = certificate.verify_for_usage(
            self.algorithms.all,
            &self.authorities.anchors,
            rest,
            now,
            KeyUsage::client_auth(),
            revocation,
            Some(&|path| self.authorities.check_path(path, now)),
        );
        verified.map(drop).map_err(reason::refusal)
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
        &self.authorities.subjects
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.verify(end, rest, now) {
            // Session::peer verifies again, and gives the connection no identity.
            Err(_) if self.lenient => Ok(ClientCertVerified::assertion()),
            verified => verified.map(|()| ClientCertVerified::assertion()),
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
