//! The options `security.ldap`.

use std::path::PathBuf;
use std::time::Duration;

use nagi_ldap::LdapOptions;
use zeroize::Zeroizing;

use super::Settings;

/// The key of the option without which there is no LDAP.
const SERVERS: &str = "security.ldap.servers";

/// Options that mean nothing without servers.
const DEPENDENT: &[&str] = &[
    "security.ldap.authz.queryTemplate",
    "security.ldap.bind.queryPassword",
    "security.ldap.bind.queryUser",
    "security.ldap.tlsCAFile",
    "security.ldap.userToDNMapping",
];

/// LDAP as it is configured.
#[derive(Debug, Clone)]
pub(crate) struct LdapSettings {
    pub(crate) options: LdapOptions,
    /// The server starts only if an LDAP server answers.
    pub(crate) validate: bool,
}

/// The options of LDAP; `None` without servers.
pub(super) fn from_settings(settings: &Settings) -> Result<Option<LdapSettings>, String> {
    let text = |key: &str| settings.get(key).unwrap_or("").to_owned();
    if text(SERVERS).is_empty() {
        return match DEPENDENT.iter().find(|key| settings.get(key).is_some_and(|v| !v.is_empty())) {
            Some(key) => Err(format!("BadValue: {key} needs {SERVERS}")),
            None => Ok(None),
        };
    }
    let usual = LdapOptions::default();
    let number = |name: &str| settings.parameters.get(name).and_then(|text| text.parse().ok());
    let pooled = !matches!(
        settings.parameters.get("ldapUseConnectionPool").map(String::as_str),
        Some("false" | "0")
    );
    let idle = number("ldapConnectionPoolIdleHostTimeoutSecs").map(Duration::from_secs);
    let ca_file = settings.get("security.ldap.tlsCAFile").map(PathBuf::from);
    let options = LdapOptions {
        servers: text(SERVERS),
        tls: settings.get("security.ldap.transportSecurity") != Some("none"),
        // The variable is that of OpenLDAP's library, by which MongoDB's clients of LDAP are configured.
        ca_file: ca_file.or_else(|| of_environment("LDAPTLS_CACERT")),
        query_user: text("security.ldap.bind.queryUser"),
        query_password: Zeroizing::new(text("security.ldap.bind.queryPassword")),
        timeout_ms: settings
            .get("security.ldap.timeoutMS")
            .and_then(|ms| ms.parse().ok())
            .unwrap_or(usual.timeout_ms),
        retry_count: settings
            .get("security.ldap.retryCount")
            .and_then(|count| count.parse().ok())
            .or(number("ldapRetryCount").and_then(|count: u64| u32::try_from(count).ok()))
            .unwrap_or(usual.retry_count),
        user_to_dn_mapping: text("security.ldap.userToDNMapping"),
        query_template: text("security.ldap.authz.queryTemplate"),
        concurrent_max: number("ldapConcurrentRequestsMax")
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(usual.concurrent_max),
        idle_time: if pooled { idle.unwrap_or(usual.idle_time) } else { Duration::ZERO },
    };
    nagi_ldap::check(&options).map_err(|why| format!("BadValue: {why}"))?;
    let validate = settings.get("security.ldap.validateLDAPServerConfig") != Some("false");
    Ok(Some(LdapSettings { options, validate }))
}

fn of_environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}
