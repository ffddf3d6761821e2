//! The options of TLS, as `app` passes them.

use std::fmt;
use std::path::PathBuf;

use nagi_server::TlsMode;
use zeroize::Zeroizing;

/// The options `net.tls`, and the server parameters beside them.
#[derive(Clone)]
pub struct TlsOptions {
    pub mode: TlsMode,
    /// Certificate chain and key of this server (`certificateKeyFile`).
    pub certificate_key_file: Option<PathBuf>,
    pub certificate_key_password: Option<Zeroizing<String>>,
    /// Certificate and key for connections to other members (`clusterFile`). There are none, so they are only checked.
    pub cluster_file: Option<PathBuf>,
    pub cluster_password: Option<Zeroizing<String>>,
    /// The authorities that sign certificates of clients (`CAFile`).
    pub ca_file: Option<PathBuf>,
    /// Those to use instead for clients (`clusterCAFile`).
    pub cluster_ca_file: Option<PathBuf>,
    pub crl_file: Option<PathBuf>,
    pub allow_connections_without_certificates: bool,
    pub allow_invalid_certificates: bool,
    /// The protocol versions 1.2 and 1.3 that clients may not use.
    pub disabled: [bool; 2],
    pub logged: LoggedVersions,
    /// Cipher suites of TLS 1.2 in the syntax of OpenSSL (`opensslCipherConfig`).
    pub ciphers: Option<String>,
    /// Cipher suites of TLS 1.3 (`opensslCipherSuiteConfig`).
    pub cipher_suites: Option<String>,
    /// A client without a certificate is not logged.
    pub quiet_without_certificate: bool,
    /// A certificate that expires within this many days is warned of; 0: none.
    pub expiry_warning_days: u32,
    /// A distinguished name: certificates with its O, OU and DC are members', as those with the server's own
    /// (`tlsX509ClusterAuthDNOverride`).
    pub member_override: Option<String>,
}

/// The versions whose connections are logged (`logVersions`), of 1.2 and 1.3.
pub type LoggedVersions = [bool; 2];

impl TlsOptions {
    /// The options of a mode, with the defaults of the others.
    pub fn new(mode: TlsMode) -> TlsOptions {
        TlsOptions {
            mode,
            certificate_key_file: None,
            certificate_key_password: None,
            cluster_file: None,
            cluster_password: None,
            ca_file: None,
            cluster_ca_file: None,
            crl_file: None,
            allow_connections_without_certificates: false,
            allow_invalid_certificates: false,
            disabled: [false; 2],
            logged: [false; 2],
            ciphers: None,
            cipher_suites: None,
            quiet_without_certificate: false,
            expiry_warning_days: 30,
            member_override: None,
        }
    }
}

/// Without the passwords.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("mode", &self.mode)
            .field("certificate_key_file", &self.certificate_key_file)
            .finish_non_exhaustive()
    }
}
