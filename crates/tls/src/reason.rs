//! Why a handshake failed, in the words that MongoDB's log has (OpenSSL's, for certificates).

use rustls::CertificateError as Certificate;
use rustls::{Error, PeerIncompatible};

/// The text for the log.
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::NoCertificatesPresented => {
            "no SSL certificate provided by peer; connection rejected".to_owned()
        }
        Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
            "no signature algorithm in common with the peer".to_owned()
        }
        Error::InvalidCertificate(invalid) => {
            format!("SSL peer certificate validation failed: {}", invalid_certificate(invalid))
        }
        Error::AlertReceived(alert) => {
            format!("SSL handshake failed: the peer sent the alert {alert:?}")
        }
        Error::PeerIncompatible(why) => {
            format!("SSL handshake failed: the peer is incompatible: {why:?}")
        }
        other => format!("SSL handshake failed: {other}"),
    }
}

/// Why a certificate is invalid.
pub(crate) fn invalid_certificate(error: &Certificate) -> String {
    let text = match error {
        Certificate::Expired | Certificate::ExpiredContext { .. } => "certificate has expired",
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            "certificate is not yet valid"
        }
        Certificate::Revoked => "certificate revoked",
        Certificate::UnknownRevocationStatus => "unable to get certificate CRL",
        Certificate::ExpiredRevocationList | Certificate::ExpiredRevocationListContext { .. } => {
            "CRL has expired"
        }
        Certificate::UnknownIssuer => "unable to get local issuer certificate",
        Certificate::BadSignature => "certificate signature failure",
        Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. } => {
            "unsuitable certificate purpose"
        }
        other => return other.to_string(),
    };
    text.to_owned()
}
