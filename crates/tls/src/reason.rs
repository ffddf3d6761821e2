//! Why a handshake failed, in the words that MongoDB's log has (OpenSSL's, for certificates).

use std::fmt;
use std::sync::Arc;

use rustls::CertificateError as Certificate;
use rustls::{Error, OtherError, PeerIncompatible};
use webpki::{Error as Webpki, InvalidNameContext};

/// A reason that rustls has no value for.
#[derive(Debug)]
struct Words(&'static str);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Words {}

/// webpki's refusal of a certificate as one of rustls, which chooses the alert by it.
pub(crate) fn refusal(error: Webpki) -> Error {
    let refused = match error {
        Webpki::BadDer | Webpki::BadDerTime | Webpki::TrailingData(_) => Certificate::BadEncoding,
        Webpki::CertExpired { time, not_after } => Certificate::ExpiredContext { time, not_after },
        Webpki::InvalidCertValidity => Certificate::Expired,
        Webpki::CertNotValidYet { time, not_before } => {
            Certificate::NotValidYetContext { time, not_before }
        }
        Webpki::CertNotValidForName(InvalidNameContext { expected, presented }) => {
            Certificate::NotValidForNameContext { expected, presented }
        }
        Webpki::CertRevoked => Certificate::Revoked,
        Webpki::CrlExpired { .. } => Certificate::ExpiredRevocationList,
        Webpki::InvalidSignatureForPublicKey => Certificate::BadSignature,
        Webpki::RequiredEkuNotFoundContext(_) => Certificate::InvalidPurpose,
        Webpki::UnknownIssuer => Certificate::UnknownIssuer,
        Webpki::UnknownRevocationStatus => Certificate::UnknownRevocationStatus,
        Webpki::UnsupportedCriticalExtension => Certificate::UnhandledCriticalExtension,
        other => match words(&other) {
            Some(text) => Certificate::Other(OtherError(Arc::new(Words(text)))),
            None => Certificate::Other(OtherError(Arc::new(other))),
        },
    };
    refused.into()
}

/// The refusal of a certificate that signs itself and is not trusted.
pub(crate) fn self_signed() -> Error {
    Certificate::Other(OtherError(Arc::new(Words("self-signed certificate")))).into()
}

/// OpenSSL's words for further reasons.
fn words(error: &Webpki) -> Option<&'static str> {
    Some(match error {
        Webpki::CaUsedAsEndEntity => "the certificate of an authority cannot be that of a client",
        Webpki::EndEntityUsedAsCa => "invalid CA certificate",
        Webpki::InvalidCrlSignatureForPublicKey | Webpki::IssuerNotCrlSigner => {
            "CRL signature failure"
        }
        Webpki::MaximumPathDepthExceeded
        | Webpki::MaximumPathBuildCallsExceeded
        | Webpki::MaximumSignatureChecksExceeded => "certificate chain too long",
        Webpki::NameConstraintViolation => "permitted subtree violation",
        Webpki::PathLenConstraintViolated => "path length constraint exceeded",
        Webpki::UnsupportedCertVersion => "unsupported certificate version",
        Webpki::UnsupportedSignatureAlgorithmContext(_) => "CA signature digest algorithm too weak",
        Webpki::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            "CA certificate key too weak"
        }
        _ => return None,
    })
}

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
        Error::PeerIncompatible(why) if in_common(why).is_some() => {
            format!("SSL handshake failed: {}", in_common(why).unwrap_or_default())
        }
        Error::PeerIncompatible(why) => {
            format!("SSL handshake failed: the peer is incompatible: {why:?}")
        }
        other => format!("SSL handshake failed: {other}"),
    }
}

/// What the two sides have not in common.
fn in_common(why: &PeerIncompatible) -> Option<&'static str> {
    Some(match why {
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired => {
            "no common version of TLS: the peer offers none of the enabled ones of 1.2 and 1.3"
        }
        PeerIncompatible::NoCipherSuitesInCommon => "no cipher suite in common with the peer",
        PeerIncompatible::NoKxGroupsInCommon => "no group of key exchange in common with the peer",
        PeerIncompatible::NoSignatureSchemesInCommon => {
            "no signature algorithm in common with the peer, for the type of the server's key"
        }
        _ => return None,
    })
}

/// A time in seconds since 1970 as text.
pub(crate) fn date(seconds: u64) -> String {
    let time = der::DateTime::from_unix_duration(std::time::Duration::from_secs(seconds));
    time.map_or_else(|_| format!("{seconds} s after 1970"), |time| time.to_string())
}

/// Why the certificate of a server is not accepted by this program as its client.
pub(crate) fn of_server(error: &Certificate) -> String {
    match error {
        Certificate::NotValidForName => "it is that of another host".to_owned(),
        Certificate::NotValidForNameContext { expected, presented } => {
            // As the library shows them: `DnsName("localhost")`, `IpAddress(127.0.0.1)`.
            let name = |shown: &String| {
                let inner = shown.split_once('(').map_or(shown.as_str(), |(_, inner)| inner);
                inner.trim_end_matches(')').trim_matches('"').to_owned()
            };
            let names: Vec<String> = presented.iter().map(name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let expected = expected.to_str();
            format!(
                "it is that of another host: '{expected}' was asked for, the names in it are: {names}"
            )
        }
        Certificate::ExpiredContext { not_after, .. } => {
            format!("certificate has expired on {}", date(not_after.as_secs()))
        }
        Certificate::NotValidYetContext { not_before, .. } => {
            format!("certificate is not yet valid, but from {}", date(not_before.as_secs()))
        }
        other => invalid_certificate(other),
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
        Certificate::UnhandledCriticalExtension => "unhandled critical extension",
        Certificate::Other(OtherError(inner)) => return inner.to_string(),
        other => return other.to_string(),
    };
    text.to_owned()
}
