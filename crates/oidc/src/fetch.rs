//! Fetches the keys of a provider: from a file, or by HTTPS. This runs on a thread of its own (see `source`).
//!
//! ```text
//!   JWKSUri ------------------------------------------------> keys
//!   issuer/.well-known/openid-configuration --> jwks_uri ---> keys        without JWKSUri
//! ```
//!
//! Bounded: time in all, bytes of a reply, redirects, each of which must be allowed as the first address.

use std::time::{Duration, Instant};

use nagi_bson::Value;
use nagi_http::{client, small_file};
use nagi_server::check_key_address;
use ureq::Agent;

use crate::json::object;

/// The time that a fetch may take in all.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(5);
/// The longest reply or file.
const BYTES_MAX: u64 = 1 << 20;
/// The number of redirects that are followed.
const REDIRECTS_MAX: usize = 3;

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) issuer: String,
    pub(crate) uri: Option<String>,
    pub(crate) ca_file: Option<String>,
}

/// Fetches the text of a key set.
///
/// # Errors
/// Why there is none.
pub(crate) fn key_set(place: &Place) -> Result<Vec<u8>, String> {
    let until = Instant::now() + TIME_MAX;
    if let Some(path) = place.uri.as_deref().and_then(|uri| uri.strip_prefix("file://")) {
        return small_file(path, BYTES_MAX);
    }
    let agent = client(place.ca_file.as_deref(), 0)?;
    if let Some(uri) = &place.uri {
        return get(&agent, uri, until);
    }
    let address =
        format!("{}/.well-known/openid-configuration", place.issuer.trim_end_matches('/'));
    let uri = keys_address(&get(&agent, &address, until)?, &place.issuer, &address)?;
    get(&agent, &uri, until)
}

/// The address of the keys, from the discovery document of an issuer.
pub(crate) fn keys_address(document: &[u8], issuer: &str, from: &str) -> Result<String, String> {
    let document = object("The discovery document", document)?;
    let field = |name: &str| document.as_doc().get(name);
    if field("issuer").as_str() != Some(issuer) {
        return Err(format!("The discovery document at {from} is of another issuer"));
    }
    let Value::String(uri) = field("jwks_uri") else {
        return Err(format!("The discovery document at {from} has no jwks_uri"));
    };
    Ok(uri.to_owned())
}

/// Gets a document, and follows redirects.
fn get(agent: &Agent, address: &str, until: Instant) -> Result<Vec<u8>, String> {
    let mut address = address.to_owned();
    for _ in 0..=REDIRECTS_MAX {
        check_key_address(&address, false)?;
        match get_once(agent, &address, until)? {
            Got::Document(bytes) => return Ok(bytes),
            Got::Elsewhere(next) => address = next,
        }
    }
    Err(format!("{address}: more than {REDIRECTS_MAX} redirects"))
}

enum Got {
    Document(Vec<u8>),
    Elsewhere(String),
}

fn get_once(agent: &Agent, address: &str, until: Instant) -> Result<Got, String> {
    let failed = |error: ureq::Error| format!("{address}: {error}");
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(format!("{address}: no answer within {} seconds", TIME_MAX.as_secs()));
    }
    let mut request = agent.get(address).header("accept", "application/json").config();
    request = request.timeout_global(Some(left));
    if address.starts_with("http://") {
        // An address of this machine: a proxy would ask its own.
        request = request.proxy(None);
    }
    let mut response = request.build().call().map_err(failed)?;
    let status = response.status();
    if status.is_redirection() {
        let next = response.headers().get("location").and_then(|value| value.to_str().ok());
        let next = next.ok_or_else(|| format!("{address}: a redirect without an address"))?;
        return Ok(Got::Elsewhere(absolute(address, next)));
    }
    if status.as_u16() != 200 {
        return Err(format!("{address}: status {}", status.as_u16()));
    }
    let body = response.body_mut().with_config().limit(BYTES_MAX);
    body.read_to_vec().map(Got::Document).map_err(failed)
}

/// The address of a redirect, which may be a path on the same server.
pub(crate) fn absolute(from: &str, to: &str) -> String {
    let path = to.starts_with('/') && !to.starts_with("//");
    let end = from.find("://").map_or(0, |at| at + 3);
    let origin = match from[end..].find(['/', '?', '#']) {
        Some(at) => &from[..end + at],
        None => from,
    };
    if path { format!("{origin}{to}") } else { to.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_keep_the_server_or_name_another() {
        let from = "https://id.example.com:8443/a?b=/c";
        assert_eq!(absolute(from, "/keys"), "https://id.example.com:8443/keys");
        assert_eq!(absolute("https://id.example.com", "/keys"), "https://id.example.com/keys");
        assert_eq!(absolute(from, "https://x/y"), "https://x/y");
        for bad in
            ["//evil.example.com/keys", "keys", "http://id.example.com/", "file:///etc/passwd"]
        {
            assert!(check_key_address(&absolute(from, bad), false).is_err(), "{bad}");
        }
    }
}
