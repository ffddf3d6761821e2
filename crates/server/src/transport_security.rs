//! TLS as the server sees it: what a connection's peer proved, and what commands ask of the crate that does TLS.
//!
//! The crate `tls` implements [`TransportSecurity`]; this one contains no TLS, so that applications with the library do
//! not contain it either.

use crate::names::RoleName;

/// Which connections are accepted (`net.tls.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    /// Without TLS only.
    Disabled,
    /// With and without TLS; this server would connect to others without.
    Allow,
    /// With and without TLS; this server would connect to others with it.
    Prefer,
    /// With TLS only.
    Require,
}

/// The names of the modes: as options of 4.2 and later, and as older ones.
const MODES: [(TlsMode, &str, &str); 4] = [
    (TlsMode::Disabled, "disabled", "disabled"),
    (TlsMode::Allow, "allowTLS", "allowSSL"),
    (TlsMode::Prefer, "preferTLS", "preferSSL"),
    (TlsMode::Require, "requireTLS", "requireSSL"),
];

impl TlsMode {
    /// The mode with this name, old or new.
    pub fn by_name(name: &str) -> Option<TlsMode> {
        MODES.iter().find(|(_, new, old)| name == *new || name == *old).map(|(mode, ..)| *mode)
    }

    /// The name; `old`: that of options before 4.2.
    pub fn name(self, old: bool) -> &'static str {
        let (_, name, older) = MODES[self as usize];
        if old { older } else { name }
    }
}

/// What the handshake of a connection found out about its peer.
#[derive(Debug, Clone, Default)]
pub struct TlsPeer {
    /// "1.2" or "1.3".
    pub version: &'static str,
    /// The client's certificate, if one of the trusted authorities signed it and it is valid.
    pub certificate: Option<ClientCertificate>,
    /// The name by which the client addressed this server (SNI).
    pub server_name: Option<String>,
}

/// A client certificate that was verified.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The subject in the syntax of RFC 2253.
    pub subject: String,
    /// Roles (name, database) that the authority wrote into the certificate; `None` without the extension.
    pub roles: Option<Vec<(String, String)>>,
    /// When it becomes invalid, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl ClientCertificate {
    /// The roles in the certificate.
    pub(crate) fn role_names(&self) -> Option<Vec<RoleName>> {
        let roles = self.roles.as_ref()?;
        Some(roles.iter().map(|(name, db)| RoleName::new(name, db)).collect())
    }
}

/// What is shown of the server's own certificate.
#[derive(Debug, Clone)]
pub struct OwnCertificate {
    /// Its subject in the syntax of RFC 2253.
    pub subject: String,
    /// Client certificates are verified.
    pub has_authority: bool,
    /// When it becomes invalid, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// TLS of this server.
pub trait TransportSecurity: Send + Sync {
    /// Which connections are accepted.
    fn mode(&self) -> TlsMode;

    /// Changes what connections are accepted. Open ones stay.
    fn set_mode(&self, mode: TlsMode);

    /// Reads all files again; new connections use them. If one is unusable, nothing changes.
    ///
    /// # Errors
    /// A text that names the file.
    fn rotate(&self) -> Result<(), String>;

    /// The server's own certificate.
    fn own_certificate(&self) -> OwnCertificate;

    /// Returns true if a subject is that of a member of the same cluster: its organization, organizational units and
    /// domain components are those of the server's own certificate, or of the name that replaces it while certificates
    /// of the members change.
    fn is_member(&self, subject: &str) -> bool;

    /// The number of handshakes that succeeded, by version: 1.2 and 1.3.
    fn accepted_counts(&self) -> [u64; 2];
}
