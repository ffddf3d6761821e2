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
    /// Commands for tests are enabled.
    pub has_test_commands: bool,
    /// Clients may run JavaScript in the server.
    pub has_javascript: bool,
}
