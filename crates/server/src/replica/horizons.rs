//! Horizons: other addresses of a member, for clients that see it under another name, such as behind a proxy.
//!
//! A client with TLS names in its handshake the host that it connects to (SNI). If a horizon has that host, `hello`
//! shows the horizon's address instead of the configured one, so that the driver stays on the same side of the proxy.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use super::config::is_host;

/// The name that stands for the configured address.
const DEFAULT: &str = "__default";
/// More names than a member can usefully have.
const COUNT_MAX: usize = 100;

/// The horizons of a member: the host without its port, and the whole address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Horizons(Vec<(String, String)>);

impl Horizons {
    /// Reads the field `horizons` of a member. `host`: its configured address.
    ///
    /// # Errors
    /// 2 and 14, with MongoDB's texts.
    pub(super) fn parse(member: Doc<'_>, host: &str) -> Result<Horizons> {
        let horizons = match member.get("horizons") {
            Value::Missing => return Ok(Horizons::default()),
            Value::Doc(horizons) => horizons,
            other => bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'MemberConfig.horizons' is the wrong type '{}', expected type 'object'",
                other.kind().name()
            ),
        };
        if horizons.is_empty() {
            bail!(Code::BAD_VALUE, "horizons field cannot be empty, if present");
        }
        let mut all: Vec<(String, String)> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for element in horizons {
            let name = element.name();
            let Some(address) = element.value().as_str() else {
                bail!(
                    Code::TYPE_MISMATCH,
                    "horizons.{name} field has non-string value of type {}",
                    element.value().kind().name()
                );
            };
            if name == DEFAULT {
                bail!(
                    Code::BAD_VALUE,
                    "Horizon name \"{DEFAULT}\" is reserved for internal mongodb usage"
                );
            }
            if name.is_empty() {
                bail!(Code::BAD_VALUE, "Horizons cannot have empty names");
            }
            if names.contains(&name) {
                bail!(Code::BAD_VALUE, "Duplicate horizon name found \"{name}\".");
            }
            if !is_host(address) {
                bail!(Code::FAILED_TO_PARSE, "horizons.{name} has no valid address: '{address}'");
            }
            let name_of_host = without_port(address);
            if name_of_host == without_port(host)
                || all.iter().any(|(known, _)| known == name_of_host)
            {
                bail!(Code::BAD_VALUE, "Duplicate horizon member found \"{address}\".");
            }
            if all.len() == COUNT_MAX {
                bail!(Code::BAD_VALUE, "A member has at most {COUNT_MAX} horizons");
            }
            names.push(name);
            all.push((name_of_host.to_owned(), address.to_owned()));
        }
        Ok(Horizons(all))
    }

    /// The address of the horizon that a client sees, if it is not the configured one.
    pub(crate) fn address_for(&self, server_name: Option<&str>) -> Option<&str> {
        let wanted = server_name?;
        let found = self.0.iter().find(|(host, _)| host.eq_ignore_ascii_case(wanted))?;
        Some(&found.1)
    }
}

fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::doc;

    #[test]
    fn a_client_sees_the_address_of_its_side() {
        let member = doc! { "horizons": { "outside": "db.example.com:30017", "other": "b:1" } };
        let horizons = Horizons::parse(member.as_doc(), "inside:27017").unwrap();
        assert_eq!(horizons.address_for(Some("db.example.com")), Some("db.example.com:30017"));
        assert_eq!(horizons.address_for(Some("DB.Example.COM")), Some("db.example.com:30017"));
        assert_eq!(horizons.address_for(Some("inside")), None);
        assert_eq!(horizons.address_for(None), None);
    }

    #[test]
    fn bad_horizons() {
        for (given, code, says) in [
            (doc! { "horizons": 1 }, Code::TYPE_MISMATCH, "wrong type 'int'"),
            (doc! { "horizons": {} }, Code::BAD_VALUE, "cannot be empty"),
            (doc! { "horizons": { "a": 1 } }, Code::TYPE_MISMATCH, "non-string"),
            (doc! { "horizons": { "__default": "a:1" } }, Code::BAD_VALUE, "reserved"),
            (doc! { "horizons": { "": "a:1" } }, Code::BAD_VALUE, "empty names"),
            (doc! { "horizons": { "a": "a:x" } }, Code::FAILED_TO_PARSE, "no valid address"),
            (
                doc! { "horizons": { "a": "h:1", "b": "h:2" } },
                Code::BAD_VALUE,
                "Duplicate horizon member",
            ),
            (doc! { "horizons": { "a": "inside:2" } }, Code::BAD_VALUE, "Duplicate horizon member"),
        ] {
            let error = Horizons::parse(given.as_doc(), "inside:1").unwrap_err();
            assert_eq!(error.code(), code, "{}", error.message());
            assert!(error.message().contains(says), "{}", error.message());
        }
    }
}
