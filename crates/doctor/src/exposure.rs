//! Who can reach the configured server, and what it asks of them.

/// What a configuration file says about access to the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposure {
    /// The first address at which other machines can reach the server; none if there is no such address.
    pub reachable_at: Option<String>,
    /// Clients must log in.
    pub has_logins: bool,
    /// Connections without TLS are refused.
    pub requires_tls: bool,
    /// Files with passwords or keys that other users of the machine can read.
    pub open_files: Vec<String>,
    /// Clients may send their passwords (PLAIN), which LDAP servers check.
    pub has_plain_logins: bool,
    /// The first LDAP server on another machine to which passwords are sent without encryption.
    pub clear_ldap_server: Option<String>,
    /// Commands for tests are enabled.
    pub has_test_commands: bool,
    /// Clients may run JavaScript in the server.
    pub has_javascript: bool,
    /// The encryption of the data files.
    pub at_rest: AtRest,
}

/// How the data files are encrypted, and whether the configuration fits the data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AtRest {
    /// Not by the server.
    #[default]
    Plain,
    /// With a key that is kept elsewhere.
    Encrypted,
    /// With a key in this file, which is beside the data.
    KeyBesideData(String),
    /// The data directory is encrypted, and the configuration has no key.
    NoKey,
    /// The configuration has a key, and the data directory has data that is not encrypted.
    PlainData,
}
