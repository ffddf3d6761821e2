//! A directory of users outside of this server (LDAP), as the server sees it.
//!
//! The crate `ldap` implements [`Directory`]; this one contains no LDAP, so that applications with the library do not
//! contain it either. Calls block until the directory has answered, or until its timeout.

/// Why a directory did not do what it was asked for. The texts are for the log only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryError {
    /// The user is unknown, or the password is wrong, or the user may not log in now.
    Refused(String),
    /// No server answered as it should, in time.
    Unavailable(String),
}

/// A setting that `setParameter` changes while the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectorySetting {
    /// `host:port`, separated by commas.
    Servers,
    /// The name with which the server itself logs in to run queries.
    QueryUser,
    /// Its password, which is never shown.
    QueryPassword,
    /// Milliseconds, in decimal.
    TimeoutMs,
    /// The rules from names of users to distinguished names, in JSON.
    UserToDnMapping,
    /// The query for a user's groups.
    AuthzQueryTemplate,
}

/// A server of the directory.
#[derive(Debug, Clone, Default)]
pub struct DirectoryServer {
    /// "host:port".
    pub host: String,
    /// It failed a short time ago, so others are tried first.
    pub is_down: bool,
    /// Connections that were opened, and attempts and requests that failed.
    pub opened_count: u64,
    pub failed_count: u64,
}

/// Figures of a directory, for `serverStatus`.
#[derive(Debug, Clone, Default)]
pub struct DirectoryStatus {
    pub servers: Vec<DirectoryServer>,
    /// Requests that run now, that wait for others to end, and that were refused because too many waited too long.
    pub running_count: u64,
    pub waiting_count: u64,
    pub crowded_out_count: u64,
    /// Connections that are open and unused.
    pub idle_count: u64,
    /// Checks of passwords and searches, with the time that they took.
    pub bind_count: u64,
    pub bind_micros: u64,
    pub search_count: u64,
    pub search_micros: u64,
}

/// A directory of users.
pub trait Directory: Send + Sync {
    /// Checks a user's password.
    ///
    /// # Errors
    /// [`DirectoryError::Refused`] if it is not right.
    fn authenticate(&self, user: &str, password: &str) -> Result<(), DirectoryError>;

    /// Returns true if users of `$external` have the roles of their groups.
    fn gives_roles(&self) -> bool;

    /// The groups of a user, by their distinguished names; `None` if there is no such user.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`] if they cannot be read.
    fn groups(&self, user: &str) -> Result<Option<Vec<String>>, DirectoryError>;

    /// Changes a setting.
    ///
    /// # Errors
    /// A text for the user, if the value is not valid; then nothing changes.
    fn set(&self, setting: DirectorySetting, value: &str) -> Result<(), String>;

    /// The value of a setting as it may be shown.
    fn shown(&self, setting: DirectorySetting) -> String;

    /// Closes connections that were not used for long. Called every second.
    fn close_unused(&self);

    /// Figures about its use.
    fn status(&self) -> DirectoryStatus;
}
