//! What is read from a certificate: subject, validity, and the roles that its authority wrote into it.

use der::asn1::ObjectIdentifier;
use der::{Decode, Reader, SliceReader, Tag};
use nagi_server::ClientCertificate;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::ext::pkix::SubjectAltName;

use crate::name;

/// MongoDB's extension with roles: a set of pairs of role and database.
const ROLES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.34601.2.1.1");
/// More roles make a certificate unusable, as more bytes do.
const ROLES_MAX: usize = 1000;

/// What is read from a certificate.
#[derive(Debug)]
pub(crate) struct Facts {
    /// In the syntax of RFC 2253.
    pub(crate) subject: String,
    pub(crate) begins_ms: i64,
    pub(crate) expires_ms: i64,
    pub(crate) roles: Option<Vec<(String, String)>>,
    /// It has names or addresses that clients compare with what they connect to.
    pub(crate) has_alternative_names: bool,
    /// The public key (SubjectPublicKeyInfo).
    pub(crate) public_key: Vec<u8>,
}

impl Facts {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// If it is no certificate, or has an extension with roles that cannot be read.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Facts, String> {
        let unreadable = |error: der::Error| format!("the certificate cannot be read: {error}");
        let certificate = Certificate::from_der(der).map_err(unreadable)?;
        let certificate = certificate.tbs_certificate();
        let milliseconds = |time: &x509_cert::time::Time| {
            i64::try_from(time.to_unix_duration().as_millis()).unwrap_or(i64::MAX)
        };
        let alternative: Option<(bool, SubjectAltName)> =
            certificate.get_extension().map_err(unreadable)?;
        let extensions = certificate.extensions().map(Vec::as_slice).unwrap_or_default();
        let roles = extensions.iter().find(|extension| extension.extn_id == ROLES);
        let roles = roles.map(|extension| roles_of(extension.extn_value.as_bytes())).transpose();
        Ok(Facts {
            subject: name::text(certificate.subject()),
            begins_ms: milliseconds(&certificate.validity().not_before),
            expires_ms: milliseconds(&certificate.validity().not_after),
            roles: roles
                .map_err(|error| format!("the certificate's roles cannot be read: {error}"))?,
            has_alternative_names: alternative.is_some_and(|(_, names)| !names.0.is_empty()),
            public_key: der::Encode::to_der(certificate.subject_public_key_info())
                .map_err(unreadable)?,
        })
    }

    /// The part that the server needs of a client's certificate.
    pub(crate) fn into_client(self) -> ClientCertificate {
        let Facts { subject, roles, expires_ms, .. } = self;
        ClientCertificate { subject, roles, expires_ms }
    }
}

/// `SET OF SEQUENCE { role UTF8String, database UTF8String }`
fn roles_of(der: &[u8]) -> Result<Vec<(String, String)>, der::Error> {
    let mut reader = SliceReader::new(der)?;
    let mut all = Vec::new();
    // A set in DER is sorted; certificates made by hand often are not, and OpenSSL does not care.
    let header = der::Header::decode(&mut reader)?;
    header.tag().assert_eq(Tag::Set)?;
    reader.read_nested(header.length(), |set| {
        while !set.is_finished() {
            if all.len() == ROLES_MAX {
                return Err(der::ErrorKind::Overlength.into());
            }
            let pair = set.sequence(|pair| {
                let role: String = pair.decode()?;
                let database: String = pair.decode()?;
                Ok::<_, der::Error>((role, database))
            })?;
            all.push(pair);
        }
        Ok::<_, der::Error>(())
    })?;
    reader.finish()?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_in_any_order() {
        let pair = |role: &[u8], database: &[u8]| {
            let mut content = vec![0x0C, role.len() as u8];
            content.extend(role);
            content.extend([0x0C, database.len() as u8]);
            content.extend(database);
            [vec![0x30, content.len() as u8], content].concat()
        };
        let both = [pair(b"readWrite", b"b"), pair(b"read", b"a")].concat();
        let set = [vec![0x31, both.len() as u8], both.clone()].concat();
        let own = |role: &str, database: &str| (role.to_owned(), database.to_owned());
        assert_eq!(roles_of(&set).unwrap(), [own("readWrite", "b"), own("read", "a")]);
        assert_eq!(roles_of(&[0x31, 0]).unwrap(), []);
        for length in 0..set.len() {
            assert!(roles_of(&set[..length]).is_err());
        }
        let sequence = [vec![0x30, both.len() as u8], both].concat();
        assert!(roles_of(&sequence).is_err());
        assert!(roles_of(&[0x31, 2, 0x30, 0]).is_err());
    }
}
