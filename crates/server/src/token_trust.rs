//! Tokens of identity providers as the server sees them: what is configured, what a token proved, and what commands ask
//! of the crate that verifies tokens.
//!
//! The crate `oidc` implements [`TokenTrust`]; this one contains neither signatures nor HTTP, so that applications with
//! the library do not contain them either.

use std::time::Duration;

use nagi_bson::DocBuf;

/// A provider of the parameter `oidcIdentityProviders`, checked. The fields have its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    /// The `iss` of its tokens, compared as text.
    pub issuer: String,
    /// The `aud` of its tokens, or one of them.
    pub audience: String,
    /// What the names of its users and roles begin with, before a slash.
    pub auth_name_prefix: String,
    /// For which principal names clients are directed to this provider; no check of tokens.
    pub match_pattern: Option<String>,
    /// The client by which people log in.
    pub client_id: Option<String>,
    /// What clients are to ask the provider for.
    pub request_scopes: Vec<String>,
    /// The claim with the user's name.
    pub principal_name: String,
    /// Roles come from the token; false: users are created by `createUser`.
    pub use_authorization_claim: bool,
    /// The claim with the names of roles.
    pub authorization_claim: Option<String>,
    /// Claims that are logged at a login.
    pub log_claims: Vec<String>,
    /// People log in by this provider.
    pub supports_human_flows: bool,
    /// How often its keys are fetched, in seconds; 0 for never again.
    pub jwks_poll_secs: u32,
    /// Where its keys are; `None`: where its discovery document says.
    pub jwks_uri: Option<String>,
    /// A file with the authorities of the servers that keys are fetched from; `None`: those of the system.
    pub jwks_ca_file: Option<String>,
}

/// What a token was accepted for. If one of the parts is gone, the token is no longer trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOrigin {
    /// The provider's issuer.
    pub issuer: String,
    /// The provider's audience.
    pub audience: String,
    /// The provider's prefix.
    pub auth_name_prefix: String,
    /// The key that signed it.
    pub key_id: String,
    /// Tells keys apart that had the same id one after the other.
    pub key_number: u64,
}

/// What a verified token says.
#[derive(Debug, Clone)]
pub struct TokenIdentity {
    /// The user on `$external`, with the prefix.
    pub user: String,
    /// The names of roles on `admin`, with the prefix; `None` if the user's document has them.
    pub roles: Option<Vec<String>>,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The claims to log.
    pub claims: DocBuf,
    pub origin: TokenOrigin,
    /// The epoch of the providers and keys by which it was verified: see [`TokenTrust::epoch`].
    pub epoch: u64,
}

/// Counts for `serverStatus`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenCounts {
    /// Providers that are configured.
    pub providers: u64,
    /// Keys that are held.
    pub keys: u64,
    /// Fetches of keys that succeeded.
    pub fetched: u64,
    /// Fetches of keys that failed.
    pub failed: u64,
    /// Logins that waited for keys.
    pub waited: u64,
    /// Tokens with a key that is not known, for which keys were not fetched because they had just been.
    pub quiet: u64,
}

/// The keys of identity providers.
pub trait TokenTrust: Send + Sync {
    /// Replaces all providers. Keys of a provider that stays are kept, those of a new one are fetched.
    fn configure(&self, providers: Vec<IdentityProvider>);

    /// Verifies a token at the wall-clock time `now_ms`. If its key is not known, the keys of its provider are fetched
    /// first, unless that was tried less than `quiet` ago: this takes seconds at most.
    ///
    /// # Errors
    /// The reason, for the log: it contains nothing of the signature.
    fn verify(&self, token: &str, now_ms: i64, quiet: Duration) -> Result<TokenIdentity, String>;

    /// Grows when providers change or keys are withdrawn.
    fn epoch(&self) -> u64;

    /// Returns true if provider and key of an accepted token are still there.
    fn still_trusts(&self, origin: &TokenOrigin) -> bool;

    /// The keys by issuer, as `{keys: [...]}`. `issuers`: of these only.
    ///
    /// # Errors
    /// If there is no provider with one of the issuers.
    fn keys(&self, issuers: Option<&[&str]>) -> Result<Vec<(String, DocBuf)>, String>;

    /// Fetches the keys now and waits for them, seconds at most. `issuers`: of these only.
    ///
    /// # Errors
    /// If there is no provider with one of the issuers, or the first fetch that failed.
    fn refresh(&self, issuers: Option<&[&str]>) -> Result<(), String>;

    /// Counts since the start.
    fn counts(&self) -> TokenCounts;

    /// Ends the fetches in the background and wakes who waits for them.
    fn stop(&self);
}

/// Checks an address that keys are fetched from: https, or http on this machine. `file` allows `file:///path` too.
///
/// # Errors
/// Why it is not allowed.
pub fn check_key_address(address: &str, file: bool) -> Result<(), String> {
    let bad = |why: &str| Err(format!("'{address}' {why}"));
    if address.bytes().any(|byte| byte <= b' ' || byte == 0x7F || byte == b'\\' || byte >= 0x80) {
        return bad("is not a URL");
    }
    if let Some(path) = address.strip_prefix("file://") {
        return match file && path.starts_with('/') {
            true => Ok(()),
            false => bad("is not allowed here"),
        };
    }
    let (secure, rest) = match (address.strip_prefix("https://"), address.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return bad("must begin with https://"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    if authority.contains('@') {
        return bad("must not contain a user");
    }
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(""),
        None => authority.split(':').next().unwrap_or(""),
    };
    if host.is_empty() {
        return bad("names no host");
    }
    let ip = host.parse::<std::net::IpAddr>();
    if !secure && host != "localhost" && !ip.is_ok_and(|ip| ip.is_loopback()) {
        return bad("must begin with https://, because it is not on this machine");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_go_without_encryption() {
        for good in [
            "https://id.example.com",
            "https://id.example.com:8443/a/b?c=d",
            "http://localhost:8080/keys",
            "http://127.0.0.1:1/",
            "http://127.9.9.9",
            "http://[::1]:80/x",
            "https://[2001:db8::1]/x",
        ] {
            assert_eq!(check_key_address(good, false), Ok(()), "{good}");
        }
        for bad in [
            "",
            "id.example.com",
            "ftp://localhost/",
            "https://",
            "https:///path",
            "http://id.example.com/",
            "http://10.0.0.1/",
            "http://127.0.0.1@evil.example.com/",
            "http://127.0.0.1.evil.example.com/",
            "http://localhost.evil.example.com/",
            "http://localhost\\@evil.example.com/",
            "https://user:pass@id.example.com/",
            "https://id.example.com/a b",
            "https://id.example.com/\r\nHost: x",
            "file:///etc/keys.json",
            "HTTP://id.example.com",
        ] {
            assert!(check_key_address(bad, false).is_err(), "{bad}");
        }
        assert!(check_key_address("file:///etc/keys.json", true).is_ok());
        assert!(check_key_address("file://host/etc/keys.json", true).is_err());
    }
}
