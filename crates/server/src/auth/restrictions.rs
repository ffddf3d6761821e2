//! `authenticationRestrictions`: the networks from which, and to which, a user may log in.
//!
//! A list of restrictions is satisfied if one of its restrictions is. A restriction is satisfied if the
//! client's address is in one of the networks of `clientSource` and the server's address in one of
//! `serverAddress`; an absent field restricts nothing.

use std::net::IpAddr;

use nagi_bson::{Array, Value};
use nagi_error::{Code, Result, bail, err};

use crate::networks::Network;

/// Alternative restrictions; one of them must be satisfied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restrictions(Vec<Restriction>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Restriction {
    clients: Vec<Network>,
    servers: Vec<Network>,
}

impl Restrictions {
    /// Parses `[{clientSource: [...], serverAddress: [...]}, ...]`.
    pub(crate) fn parse(list: Array<'_>) -> Result<Restrictions> {
        let mut all = Vec::new();
        for value in list.iter() {
            let Value::Doc(doc) = value else {
                bail!(
                    Code::UNSUPPORTED_FORMAT,
                    "'authenticationRestrictions' array sub-documents must be address restriction \
                     objects"
                );
            };
            let mut one = Restriction::default();
            for element in doc {
                let networks = match element.name() {
                    "clientSource" => &mut one.clients,
                    "serverAddress" => &mut one.servers,
                    other => bail!(
                        Code::UNSUPPORTED_FORMAT,
                        "unrecognized field '{other}' in authentication restriction"
                    ),
                };
                *networks = parse_networks(element.name(), element.value())?;
            }
            if doc.is_empty() {
                bail!(Code::BAD_VALUE, "authentication restriction must not be empty");
            }
            all.push(one);
        }
        Ok(Restrictions(all))
    }

    /// Returns true if the login is allowed. An unknown address is in no network.
    pub(crate) fn allow(&self, client: Option<IpAddr>, server: Option<IpAddr>) -> bool {
        let within = |networks: &[Network], address: Option<IpAddr>| {
            networks.is_empty()
                || address.is_some_and(|address| networks.iter().any(|n| n.contains(address)))
        };
        self.0.is_empty()
            || self.0.iter().any(|one| within(&one.clients, client) && within(&one.servers, server))
    }
}

fn parse_networks(field: &str, value: Value<'_>) -> Result<Vec<Network>> {
    let wrong = || err!(Code::TYPE_MISMATCH, "'{field}' must be a string or an array of strings");
    let parse = |value: Value<'_>| {
        let text = value.as_str().ok_or_else(wrong)?;
        Network::parse(text)
            .ok_or_else(|| err!(Code::BAD_VALUE, "'{text}' is not an address or a CIDR range"))
    };
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(parse).collect(),
        Value::String(_) => Ok(vec![parse(value)?]),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn allows(list: &str, client: &str) -> bool {
        let doc = json::parse(&format!("{{r: {list}}}")).unwrap();
        let restrictions = Restrictions::parse(doc.get("r").as_array().unwrap()).unwrap();
        restrictions.allow(client.parse().ok(), "127.0.0.1".parse().ok())
    }

    #[test]
    fn compares_prefixes() {
        assert!(allows("[]", "1.2.3.4"));
        assert!(allows("[{clientSource: ['10.0.0.0/8']}]", "10.9.8.7"));
        assert!(!allows("[{clientSource: ['10.0.0.0/8']}]", "11.0.0.1"));
        assert!(allows("[{clientSource: ['10.0.0.0/8', '::1']}]", "::1"));
        assert!(allows("[{clientSource: ['0.0.0.0/0']}]", "200.1.1.1"));
        assert!(!allows("[{clientSource: ['0.0.0.0/0'], serverAddress: ['10.1.1.1']}]", "1.1.1.1"));
        assert!(allows("[{clientSource: '1.1.1.2'}, {clientSource: '1.1.1.1'}]", "1.1.1.1"));
        assert!(!allows("[{clientSource: ['127.0.0.1']}]", "anonymous unix socket"));
    }

    #[test]
    fn refuses_what_is_no_network() {
        for text in [
            "[1]",
            "[{}]",
            "[{x: 1}]",
            "[{clientSource: ['x']}]",
            "[{clientSource: []}]",
            "[{clientSource: ['1.1.1.1/33']}]",
            "[{clientSource: 1}]",
        ] {
            let doc = json::parse(&format!("{{r: {text}}}")).unwrap();
            assert!(Restrictions::parse(doc.get("r").as_array().unwrap()).is_err(), "{text}");
        }
    }
}
