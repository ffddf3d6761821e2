//! The settings of LDAP, checked: options of the start, and those that `setParameter` changes.

use std::sync::Arc;
use std::time::Duration;

use nagi_server::DirectorySetting;
use zeroize::Zeroizing;

use crate::mapping::Mapping;
use crate::placeholder::Names;
use crate::query::Query;

/// The number of servers.
const SERVERS_MAX: usize = 32;
/// The longest password that is sent to a server.
pub(crate) const PASSWORD_BYTES_MAX: usize = 4096;

/// Options as they are configured.
#[derive(Clone)]
pub struct LdapOptions {
    /// `host`, `host:port` or `[address]:port`, separated by commas.
    pub servers: String,
    /// Connections use TLS from their first byte (LDAPS).
    pub tls: bool,
    /// The authorities that sign the servers' certificates; without it those of the system.
    pub ca_file: Option<std::path::PathBuf>,
    /// The name and password with which queries are run; empty: without a login.
    pub query_user: String,
    pub query_password: Zeroizing<String>,
    /// The time for a request, with all servers and retries.
    pub timeout_ms: u64,
    /// How often the servers are tried again after a network error.
    pub retry_count: u32,
    /// `userToDNMapping`, in JSON.
    pub user_to_dn_mapping: String,
    /// `authz.queryTemplate`; empty: users have the roles of their documents.
    pub query_template: String,
    /// The number of requests that run at the same time.
    pub concurrent_max: usize,
    /// Unused connections are kept for this time; zero: they are closed at once.
    pub idle_time: Duration,
}

impl Default for LdapOptions {
    fn default() -> LdapOptions {
        LdapOptions {
            servers: String::new(),
            tls: true,
            ca_file: None,
            query_user: String::new(),
            query_password: Zeroizing::default(),
            timeout_ms: 10_000,
            retry_count: 0,
            user_to_dn_mapping: String::new(),
            query_template: String::new(),
            concurrent_max: 64,
            idle_time: Duration::from_secs(300),
        }
    }
}

impl LdapOptions {
    /// The names or addresses of the servers; none if they are not valid.
    pub fn hosts(&self) -> Vec<String> {
        let servers = servers(&self.servers, self.tls).unwrap_or_default();
        servers.into_iter().map(|server| server.host).collect()
    }
}

impl std::fmt::Debug for LdapOptions {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LdapOptions")
            .field("servers", &self.servers)
            .field("query_user", &self.query_user)
            .finish_non_exhaustive()
    }
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub(crate) fn shown(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Checks the options.
///
/// # Errors
/// A text that names the option.
pub fn check(options: &LdapOptions) -> Result<(), String> {
    Settings::new(options.clone()).map(drop)
}

/// The settings that may change.
pub(crate) struct Settings {
    pub(crate) options: LdapOptions,
    pub(crate) servers: Vec<Address>,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) template: Option<Query>,
}

impl Settings {
    /// Checks the options.
    ///
    /// # Errors
    /// A text that names the option.
    pub(crate) fn new(options: LdapOptions) -> Result<Settings, String> {
        let servers = servers(&options.servers, options.tls)
            .map_err(|why| format!("security.ldap.servers (--ldapServers): {why}"))?;
        let mapping = Mapping::parse(&options.user_to_dn_mapping).map_err(|why| {
            format!("security.ldap.userToDNMapping (--ldapUserToDNMapping): {why}")
        })?;
        let names = |name: &str| ["USER", "PROVIDED_USER"].iter().position(|known| *known == name);
        let template = match options.query_template.trim() {
            "" => None,
            text => Some(template(text, &names).map_err(|why| {
                format!("security.ldap.authz.queryTemplate (--ldapAuthzQueryTemplate): {why}")
            })?),
        };
        if options.query_user.is_empty() != options.query_password.is_empty() {
            return Err("security.ldap.bind.queryUser (--ldapQueryUser) and security.ldap.bind.queryPassword \
                        (--ldapQueryPassword) must be used together"
                .to_owned());
        }
        if options.query_password.len() > PASSWORD_BYTES_MAX {
            return Err(format!(
                "security.ldap.bind.queryPassword is longer than {PASSWORD_BYTES_MAX} bytes"
            ));
        }
        Ok(Settings { options, servers, mapping: Arc::new(mapping), template })
    }

    /// The settings with one of them changed.
    pub(crate) fn with(&self, setting: DirectorySetting, value: &str) -> Result<Settings, String> {
        let mut options = self.options.clone();
        match setting {
            DirectorySetting::Servers => value.clone_into(&mut options.servers),
            DirectorySetting::QueryUser => value.clone_into(&mut options.query_user),
            DirectorySetting::QueryPassword => {
                options.query_password = Zeroizing::new(value.to_owned());
            }
            DirectorySetting::TimeoutMs => {
                options.timeout_ms = value.parse().map_err(|_| "it is not a number".to_owned())?;
            }
            DirectorySetting::UserToDnMapping => value.clone_into(&mut options.user_to_dn_mapping),
            DirectorySetting::AuthzQueryTemplate => value.clone_into(&mut options.query_template),
        }
        Settings::new(options)
    }

    /// The value of a setting as it may be shown.
    pub(crate) fn shown(&self, setting: DirectorySetting) -> String {
        let options = &self.options;
        match setting {
            DirectorySetting::Servers => options.servers.clone(),
            DirectorySetting::QueryUser => options.query_user.clone(),
            DirectorySetting::QueryPassword if options.query_password.is_empty() => String::new(),
            DirectorySetting::QueryPassword => "###".to_owned(),
            DirectorySetting::TimeoutMs => options.timeout_ms.to_string(),
            DirectorySetting::UserToDnMapping => options.user_to_dn_mapping.clone(),
            DirectorySetting::AuthzQueryTemplate => options.query_template.clone(),
        }
    }
}

/// The query for the groups of a user.
fn template(text: &str, names: Names<'_>) -> Result<Query, String> {
    let query = Query::parse(text, names)?;
    match query.has_arguments() {
        true => Ok(query),
        false => Err(format!(
            "'{text}' has neither {{USER}} nor {{PROVIDED_USER}}: every user would have every group that it finds"
        )),
    }
}

fn servers(list: &str, tls: bool) -> Result<Vec<Address>, String> {
    let mut all = Vec::new();
    for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let server = address(text, tls)?;
        if !all.contains(&server) {
            all.push(server);
        }
    }
    match all.len() {
        0 => Err("there is no server".to_owned()),
        1..=SERVERS_MAX => Ok(all),
        _ => Err(format!("there are more than {SERVERS_MAX} servers")),
    }
}

fn address(text: &str, tls: bool) -> Result<Address, String> {
    let bad = |why: &str| Err(format!("'{text}': {why}"));
    if text.starts_with("srv:") || text.starts_with("srv_raw:") {
        return bad("servers are not looked up by SRV records: write host:port");
    }
    if text.contains("://") {
        return bad(
            "write host:port without ldap:// or ldaps://, and set security.ldap.transportSecurity",
        );
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, rest)) => match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return bad("it is not host:port"),
            },
            None => return bad("it is not host:port"),
        },
        // An address of IPv6 without brackets has no port.
        None if text.matches(':').count() > 1 => (text, None),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let usual = if tls { 636 } else { 389 };
    let port = match port.map(str::parse::<u16>) {
        None => usual,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return bad("its port is not a number from 1 to 65535"),
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    match !host.is_empty() && host.chars().all(known) {
        true => Ok(Address { host: host.to_owned(), port }),
        false => bad("it is not host:port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(servers: &str) -> LdapOptions {
        LdapOptions { servers: servers.to_owned(), ..LdapOptions::default() }
    }

    #[test]
    fn addresses_of_servers() {
        let all = |text: &str| {
            let settings = Settings::new(options(text));
            settings.map(|s| s.servers.iter().map(Address::shown).collect::<Vec<_>>())
        };
        assert_eq!(all("a, b:1,[::1]:2,::1,a").unwrap(), ["a:636", "b:1", "[::1]:2", "[::1]:636"]);
        for bad in
            ["", ",", "a:0", "a:x", "a b", "srv:x", "srv_raw:x", "ldap://a", "[::1", "[::1]x"]
        {
            assert!(all(bad).is_err(), "{bad}");
        }
        let plain = LdapOptions { tls: false, ..options("a") };
        assert_eq!(Settings::new(plain).unwrap().servers[0].port, 389);
    }

    #[test]
    fn a_bad_change_changes_nothing_and_the_password_is_not_shown() {
        let mut first = options("a");
        first.query_user = "cn=q".into();
        first.query_password = Zeroizing::new("secret".into());
        let settings = Settings::new(first).unwrap();
        assert!(settings.with(DirectorySetting::Servers, "").is_err());
        assert!(settings.with(DirectorySetting::QueryUser, "").is_err());
        assert!(settings.with(DirectorySetting::UserToDnMapping, "{").is_err());
        assert!(settings.with(DirectorySetting::AuthzQueryTemplate, "{X}").is_err());
        let of_all = "ou=groups,dc=x??sub?(objectClass=groupOfNames)";
        let refused = settings.with(DirectorySetting::AuthzQueryTemplate, of_all).err().unwrap();
        assert!(refused.contains("neither {USER} nor {PROVIDED_USER}"), "{refused}");
        let changed = settings.with(DirectorySetting::QueryPassword, "other").unwrap();
        assert_eq!(changed.shown(DirectorySetting::QueryPassword), "###");
        assert!(!format!("{:?}", changed.options).contains("other"));
    }
}
