//! The authorities that sign certificates of clients, and what certificates say of their own use.
//!
//! webpki takes an authority of the file for trusted whatever its certificate says. OpenSSL, and so mongod, also checks
//! the authority's own validity, that it may sign certificates, and how many others may be below it; so does
//! [`Limits`].

use rustls::DistinguishedName;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{Error, VerifiedPath};
use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage};

/// id-kp-clientAuth
const CLIENT: der::asn1::ObjectIdentifier =
    der::asn1::ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// The certificates of a file of authorities.
pub(crate) struct Authorities {
    /// In the order of the file, as the others.
    certificates: Vec<CertificateDer<'static>>,
    pub(crate) anchors: Vec<TrustAnchor<'static>>,
    limits: Vec<Limits>,
    /// Their subjects, which are sent to clients so that they choose a certificate.
    pub(crate) subjects: Vec<DistinguishedName>,
}

/// What a certificate says of its own use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Seconds since 1970.
    begins_s: u64,
    expires_s: u64,
    /// It may sign certificates.
    is_authority: bool,
    /// The number of authorities that may be between it and the last certificate.
    path_len: Option<usize>,
    /// It may sign a handshake.
    signs_handshakes: bool,
    /// It may be a client's.
    is_for_clients: bool,
    /// Its issuer is its subject.
    is_self_issued: bool,
}

impl Limits {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// If it is no certificate, or one of the extensions cannot be read.
    pub(crate) fn read(der: &[u8]) -> Result<Limits, der::Error> {
        use der::Decode;
        let certificate = Certificate::from_der(der)?;
        let certificate = certificate.tbs_certificate();
        let constraints: Option<(bool, BasicConstraints)> = certificate.get_extension()?;
        let usage: Option<(bool, KeyUsage)> = certificate.get_extension()?;
        let purposes: Option<(bool, ExtendedKeyUsage)> = certificate.get_extension()?;
        let signs = usage.as_ref().map(|(_, usage)| usage.key_cert_sign());
        let is_authority = match (&constraints, signs) {
            (_, Some(false)) => false,
            (Some((_, constraints)), _) => constraints.ca,
            // Without the extension: one of version 1, or one that names the usage.
            (None, Some(true)) => true,
            (None, None) => certificate.version() == Version::V1,
        };
        let path_len = constraints.and_then(|(_, constraints)| constraints.path_len_constraint);
        let may = |usage: &KeyUsage| usage.digital_signature() || usage.key_agreement();
        Ok(Limits {
            begins_s: certificate.validity().not_before.to_unix_duration().as_secs(),
            expires_s: certificate.validity().not_after.to_unix_duration().as_secs(),
            is_authority,
            path_len: path_len.map(usize::from),
            signs_handshakes: usage.is_none_or(|(_, usage)| may(&usage)),
            is_for_clients: purposes.is_none_or(|(_, list)| list.0.contains(&CLIENT)),
            is_self_issued: certificate.issuer() == certificate.subject(),
        })
    }

    /// Checks the validity.
    pub(crate) fn check_time(&self, now: UnixTime) -> Result<(), Error> {
        let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        if now.as_secs() < self.begins_s {
            return Err(Error::CertNotValidYet { time: now, not_before: at(self.begins_s) });
        }
        if now.as_secs() > self.expires_s {
            return Err(Error::CertExpired { time: now, not_after: at(self.expires_s) });
        }
        Ok(())
    }

    /// Checks an authority with a number of others below it.
    fn check_authority(&self, below: usize, now: UnixTime) -> Result<(), Error> {
        if !self.is_authority {
            return Err(Error::EndEntityUsedAsCa);
        }
        if self.path_len.is_some_and(|most| below > most) {
            return Err(Error::PathLenConstraintViolated);
        }
        self.check_time(now)
    }

    /// Returns true if no other authority can have signed the certificate.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.is_self_issued
    }

    /// Returns true if the certificate may sign a client's handshake.
    pub(crate) fn is_usable_by_clients(&self) -> bool {
        self.signs_handshakes && self.is_for_clients
    }

    /// Days until the certificate expires; negative if it has.
    fn days_left(&self, now_s: u64) -> i64 {
        let signed = |seconds| i64::try_from(seconds).unwrap_or(i64::MAX);
        (signed(self.expires_s) - signed(now_s)).div_euclid(86_400)
    }
}

impl Authorities {
    /// Reads the certificates of a file.
    ///
    /// # Errors
    /// A text, if there is none or one cannot be used.
    pub(crate) fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Authorities, String> {
        if certificates.is_empty() {
            return Err("the file has no certificate".to_owned());
        }
        let (mut anchors, mut limits, mut subjects) = (Vec::new(), Vec::new(), Vec::new());
        for certificate in &certificates {
            let unusable =
                |why: &dyn std::fmt::Display| format!("a certificate cannot be used: {why}");
            let anchor = webpki::anchor_from_trusted_cert(certificate);
            let anchor = anchor.map_err(|error| unusable(&error))?.to_owned();
            subjects.push(DistinguishedName::in_sequence(&anchor.subject));
            anchors.push(anchor);
            limits.push(Limits::read(certificate).map_err(|error| unusable(&error))?);
        }
        Ok(Authorities { certificates, anchors, limits, subjects })
    }

    /// Returns true if a certificate is itself in the file, so that it needs no signature of another.
    pub(crate) fn trusts_itself(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|known| known == certificate)
    }

    /// Checks the authorities of a path whose signatures were verified. Another path may pass if this one does not.
    pub(crate) fn check_path(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<(), Error> {
        let mut below = 0;
        for certificate in path.intermediate_certificates() {
            let limits = Limits::read(&certificate.der()).map_err(|_| Error::BadDer)?;
            limits.check_authority(below, now)?;
            below += 1;
        }
        let anchor = path.anchor();
        // An authority that was renewed with the same key is several times in the file.
        let same = self.anchors.iter().zip(&self.limits).filter(|(known, _)| {
            known.subject == anchor.subject
                && known.subject_public_key_info == anchor.subject_public_key_info
        });
        let mut refusal = Error::UnknownIssuer;
        for (_, limits) in same {
            match limits.check_authority(below, now) {
                Ok(()) => return Ok(()),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// The fewest days until one of them expires.
    pub(crate) fn days_left(&self, now_s: u64) -> Option<i64> {
        self.limits.iter().map(|limits| limits.days_left(now_s)).min()
    }
}
