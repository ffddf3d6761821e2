//! Everything that is read from files, checked as a whole: the configuration of new connections.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use nagi_server::OwnCertificate;
use rustix::fs::{Mode, OFlags};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_cert::certificate::Rfc5280;
use x509_cert::crl::CertificateList;

use crate::authorities::Authorities;
use crate::certificate::Facts;
use crate::members::{self, Attributes};
use crate::options::TlsOptions;
use crate::pem::{self, Section};
use crate::verify::Verifier;
use crate::{ciphers, key, reason};

/// The sessions of TLS 1.2 that clients may resume without a ticket. One takes some hundred bytes, and those of the
/// client's certificates.
const SESSIONS_MAX: usize = 4096;

const DAY_MS: i64 = 86_400_000;

/// The configuration of new connections.
pub(crate) struct Material {
    pub(crate) config: Arc<ServerConfig>,
    /// `None`: clients are not asked for certificates.
    pub(crate) verifier: Option<Arc<Verifier>>,
    pub(crate) own: OwnCertificate,
    /// What the subjects of other members have in common with this server's.
    pub(crate) own_attributes: Attributes,
    /// Texts for the log.
    pub(crate) warnings: Vec<String>,
    pub(crate) options: Arc<TlsOptions>,
    pub(crate) counts: Arc<Counts>,
}

/// Handshakes that succeeded, with 1.2 and with 1.3.
#[derive(Default)]
pub(crate) struct Counts([AtomicU64; 2]);

impl Counts {
    pub(crate) fn add(&self, is_13: bool) {
        self.0[usize::from(is_13)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> [u64; 2] {
        [0, 1].map(|index: usize| self.0[index].load(Ordering::Relaxed))
    }
}

/// A certificate chain and its key.
struct Identity {
    certified: CertifiedKey,
    facts: Facts,
}

impl Material {
    /// Reads all files.
    ///
    /// # Errors
    /// A text that names the option and the file.
    pub(crate) fn read(
        options: &Arc<TlsOptions>,
        counts: &Arc<Counts>,
    ) -> Result<Material, String> {
        let mut warnings = Vec::new();
        let provider = ciphers::select(
            rustls::crypto::ring::default_provider(),
            options.ciphers.as_deref(),
            options.cipher_suites.as_deref(),
        )?;
        let provider = Arc::new(provider);
        let path = options.certificate_key_file.as_deref();
        let path =
            path.ok_or("need tlsCertificateKeyFile or certificateSelector when TLS is enabled")?;
        let password = options.certificate_key_password.as_ref().map(|text| text.as_str());
        let own = identity(path, password, &provider)
            .map_err(|why| format!("Can not set up PEM key file. {}: {why}", path.display()))?;
        warn_of_file(path, &own.facts, options, &mut warnings);
        let mut member = members::attributes(&own.facts.subject);
        if let Some(path) = options.cluster_file.as_deref() {
            let password = options.cluster_password.as_ref().map(|text| text.as_str());
            let cluster = identity(path, password, &provider)
                .map_err(|why| format!("Can not set up cluster file. {}: {why}", path.display()))?;
            warn_of_file(path, &cluster.facts, options, &mut warnings);
            member = members::attributes(&cluster.facts.subject);
        }
        if let Some(list) = &options.member_override
            && members::attributes(list).is_empty()
        {
            return Err(format!(
                "Unable to parse tlsX509ClusterAuthDNOverride: '{list}' is not a distinguished name with O, OU or DC"
            ));
        }
        let verifier = verifier(options, &provider)?;
        match &verifier {
            Some(verifier) => warn_of_authorities(&verifier.authorities, options, &mut warnings),
            None => warnings.push(NO_AUTHORITY.to_owned()),
        }
        let facts = OwnCertificate {
            subject: own.facts.subject,
            has_authority: verifier.is_some(),
            expires_ms: own.facts.expires_ms,
        };
        let config = configuration(options, provider, own.certified, verifier.as_ref())?;
        Ok(Material {
            config,
            verifier,
            own: facts,
            own_attributes: member,
            warnings,
            options: options.clone(),
            counts: counts.clone(),
        })
    }
}

const NO_AUTHORITY: &str = "No client certificate validation can be performed since no CA file has been provided. \
    Please specify an sslCAFile parameter";

fn configuration(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
    own: CertifiedKey,
    verifier: Option<&Arc<Verifier>>,
) -> Result<Arc<ServerConfig>, String> {
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    for (version, disabled) in
        [&rustls::version::TLS12, &rustls::version::TLS13].into_iter().zip(options.disabled)
    {
        if !disabled {
            versions.push(version);
        }
    }
    if versions.is_empty() {
        return Err("All supported TLS protocols have been disabled.".to_owned());
    }
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| error.to_string())?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config =
        builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(own)));
    // Keys of tickets are replaced every six hours, and with each new configuration: a client that was verified by old
    // files is verified again.
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|error| error.to_string())?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    Ok(Arc::new(config))
}

/// Reads the chain and the key of a file, and checks that they fit and are valid now.
fn identity(
    path: &Path,
    password: Option<&str>,
    provider: &CryptoProvider,
) -> Result<Identity, String> {
    let sections = read(path)?;
    let chain = certificates(&sections);
    let first = chain.first().ok_or("the file has no certificate")?;
    let facts = Facts::read(first)?;
    let key = key::find(&sections, password)?.ok_or("the file has no private key")?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| {
        format!("the private key cannot be used: {}", key::unusable(&facts, &error))
    })?;
    if let Some(public) = key.public_key()
        && public.as_ref() != facts.public_key
    {
        return Err(not_first(&chain, public.as_ref()));
    }
    let now = now_ms();
    if now < facts.begins_ms || now > facts.expires_ms {
        let (what, at_ms) = match now < facts.begins_ms {
            true => ("It is valid from", facts.begins_ms),
            false => ("It has expired on", facts.expires_ms),
        };
        let date = reason::date(u64::try_from(at_ms / 1000).unwrap_or(0));
        // MongoDB's text, and the date.
        return Err(format!(
            "The provided SSL certificate is expired or not yet valid. {what} {date}"
        ));
    }
    Ok(Identity { certified: CertifiedKey::new(chain, key), facts })
}

/// The key of a file does not fit its first certificate: perhaps it fits another one.
fn not_first(chain: &[CertificateDer<'_>], public: &[u8]) -> String {
    let fits = |der: &CertificateDer<'_>| Facts::read(der).is_ok_and(|f| f.public_key == public);
    match chain.iter().position(fits) {
        Some(index) => format!(
            "the private key fits certificate {} of the file: put that one first, then those of its authorities",
            index + 1
        ),
        None => "the private key does not fit the first certificate".to_owned(),
    }
}

/// The verifier of client certificates; `None` without a file of authorities.
fn verifier(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<Verifier>>, String> {
    let Some(path) = options.cluster_ca_file.as_deref().or(options.ca_file.as_deref()) else {
        return match &options.crl_file {
            Some(_) => Err("need tlsCAFile with tlsCRLFile".to_owned()),
            None => Ok(None),
        };
    };
    let trusted = authorities(path)?;
    // The other file is checked, too, though no connection uses it.
    if let (Some(_), Some(path)) = (&options.cluster_ca_file, &options.ca_file) {
        authorities(path)?;
    }
    let revoked = match &options.crl_file {
        Some(path) => revocation_lists(path)
            .map_err(|why| format!("Can not set up CRL file. {}: {why}", path.display()))?,
        None => Vec::new(),
    };
    Ok(Some(Arc::new(Verifier {
        algorithms: provider.signature_verification_algorithms,
        authorities: trusted,
        revoked,
        optional: options.allow_connections_without_certificates,
        lenient: options.allow_invalid_certificates,
    })))
}

fn authorities(path: &Path) -> Result<Authorities, String> {
    let found = read(path).and_then(|sections| Authorities::new(certificates(&sections)));
    found.map_err(|why| format!("Can not set up CA file. {}: {why}", path.display()))
}

fn revocation_lists(path: &Path) -> Result<Vec<CertRevocationList<'static>>, String> {
    let sections = read(path)?;
    let lists = sections.iter().filter(|section| section.label == "X509 CRL");
    let lists: Result<Vec<_>, String> = lists.map(|list| revocation_list(&list.bytes)).collect();
    match lists {
        Ok(lists) if lists.is_empty() => Err("the file has no revocation list".to_owned()),
        lists => lists.map_err(|why| format!("a list cannot be used: {why}")),
    }
}

/// A list in DER. The library wants what RFC 5280 demands of lists, and OpenSSL leaves out unless it is configured.
fn revocation_list(der: &[u8]) -> Result<CertRevocationList<'static>, String> {
    OwnedCertRevocationList::from_der(der).map(CertRevocationList::from).map_err(|error| {
        match is_old_list(der) {
            true => "it must be of version 2 and have extensions with a CRL number, as RFC 5280 demands: set crlnumber \
                     and crl_extensions in the configuration of the authority, as docs/tls.md shows, and make it \
                     again"
                .to_owned(),
            false => error.to_string(),
        }
    })
}

/// True if a list is of version 1, or has no extensions.
fn is_old_list(der: &[u8]) -> bool {
    use der::{Decode, Reader};
    // A list of version 1 has no field of the version, which the parser wants.
    let begins = |reader: &mut der::SliceReader<'_>| {
        reader.sequence(|list| {
            let content: der::asn1::AnyRef<'_> = list.decode()?;
            let _: der::asn1::AnyRef<'_> = list.decode()?;
            let _: der::asn1::AnyRef<'_> = list.decode()?;
            Ok::<_, der::Error>(content.value().first() == Some(&0x30))
        })
    };
    let is_version_1 = der::SliceReader::new(der).and_then(|mut reader| begins(&mut reader));
    is_version_1.unwrap_or(false)
        || CertificateList::<Rfc5280>::from_der(der)
            .is_ok_and(|list| list.tbs_cert_list.crl_extensions.is_none())
}

/// The certificates of a file.
pub(crate) fn certificates(sections: &[Section]) -> Vec<CertificateDer<'static>> {
    let is_certificate =
        |section: &&Section| ["CERTIFICATE", "X509 CERTIFICATE"].contains(&section.label.as_str());
    let found = sections.iter().filter(is_certificate);
    found.map(|section| CertificateDer::from(section.bytes.to_vec())).collect()
}

/// Reads the sections of a PEM file.
///
/// # Errors
/// A text, if it cannot be read, or is not a file: opening a pipe without a writer must not wait.
pub(crate) fn read(path: &Path) -> Result<Vec<Section>, String> {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, how, Mode::empty());
    let file = fs::File::from(opened.map_err(|error| unreadable(path, error))?);
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    let read = file.take(pem::FILE_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match str::from_utf8(&bytes) {
        Ok(text) => pem::sections(text),
        // A SEQUENCE, as certificates and keys are.
        Err(_) if bytes.first() == Some(&0x30) => Err(DER.to_owned()),
        Err(_) => Err("it is not PEM, which is text".to_owned()),
    }
}

const DER: &str = "it is DER, PEM is needed: openssl x509 -inform der -in FILE converts a certificate, openssl pkey \
    -inform der -in FILE a key";

/// Why a file cannot be opened; whose it is if permissions are missing.
fn unreadable(path: &Path, error: rustix::io::Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    if error != rustix::io::Errno::ACCESS {
        return text;
    }
    let own = rustix::process::geteuid().as_raw();
    // The file itself, or the first directory on the way to it that can be seen.
    let seen = path.ancestors().find_map(|place| Some((place, fs::metadata(place).ok()?)));
    match seen {
        Some((place, about)) => format!(
            "{text}: {} belongs to user {}, mode {:o}; this process runs as user {own}",
            place.display(),
            about.uid(),
            about.mode() & 0o7777
        ),
        None => format!("{text}; this process runs as user {own}"),
    }
}

/// Warns of a key that others may read, and of a certificate that expires soon or that clients will refuse.
fn warn_of_file(path: &Path, facts: &Facts, options: &TlsOptions, warnings: &mut Vec<String>) {
    let shown = path.display();
    if fs::metadata(path).is_ok_and(|about| about.mode() & 0o007 != 0) {
        warnings.push(format!(
            "The file {shown} with a private key is readable by all users of this machine"
        ));
    }
    let days = (facts.expires_ms - now_ms()) / DAY_MS;
    if days < i64::from(options.expiry_warning_days) {
        warnings.push(format!("The certificate in {shown} expires in {days} days"));
    }
    if !facts.has_alternative_names {
        warnings.push(format!(
            "Server certificate has no compatible Subject Alternative Name. This may prevent TLS clients from \
             connecting: {shown}"
        ));
    }
}

/// Warns of an authority that expires soon or has expired: certificates that it signed are then refused.
fn warn_of_authorities(all: &Authorities, options: &TlsOptions, warnings: &mut Vec<String>) {
    let now_s = u64::try_from(now_ms() / 1000).unwrap_or(0);
    let threshold = i64::from(options.expiry_warning_days);
    if let Some(days) = all.days_left(now_s).filter(|days| *days < threshold) {
        let path = options.cluster_ca_file.as_deref().or(options.ca_file.as_deref());
        let shown = path.map(Path::display).map(|path| path.to_string()).unwrap_or_default();
        warnings.push(match days < 0 {
            true => format!(
                "A certificate of an authority in {shown} has expired; those that it signed are refused"
            ),
            false => format!("A certificate of an authority in {shown} expires in {days} days"),
        });
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `openssl ca -gencrl` without `crl_extensions`: with nothing, and with a certificate that has a reason, which
    /// makes it one of version 2.
    const OLD_LISTS: [&str; 2] = [
        "-----BEGIN X509 CRL-----\n\
         MIGPMDgwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYRcNMjYxMTI2MjIyNzE0WhcN\n\
         MzYxMTIzMjIyNzE0WjAKBggqhkjOPQQDAgNHADBEAiBnFRGi21Fru/oW8wunHuHj\n\
         2Mh4VRgjgkUAUDOvtzDsHAIgDBkFVxqv2DvRlFGDXsdbjwIHuryoqAqpZLLlTeYn\n\
         uiU=\n\
         -----END X509 CRL-----",
        "-----BEGIN X509 CRL-----\n\
         MIHLMHICAQEwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYRcNMjYxMTI2MjI0MTM0\n\
         WhcNMzYxMTIzMjI0MTM0WjA1MDMCFEbPC/m5HEzw1H+9GHH5yM3E+Ga1Fw0yNjEx\n\
         MjYyMjQxMzRaMAwwCgYDVR0VBAMKAQEwCgYIKoZIzj0EAwIDSQAwRgIhAOBpwF3H\n\
         ybO8ftP0rYtUe6tXH4UZ0J1lGneezb9FR1n1AiEA8rPqDlrGduio+OYQSFg0i1Wl\n\
         TX6BOWq5DnNFvWcnO6c=\n\
         -----END X509 CRL-----",
    ];

    #[test]
    fn lists_without_extensions_are_told_from_damaged_ones() {
        for pem in OLD_LISTS {
            let sections = pem::sections(pem).unwrap();
            let why = revocation_list(&sections[0].bytes).unwrap_err();
            assert!(why.contains("set crlnumber"), "{why}");
        }
        let why = revocation_list(&[0x30, 3, 2, 1, 1]).unwrap_err();
        assert!(!why.contains("crlnumber"), "{why}");
    }
}
