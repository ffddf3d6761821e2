//! `local.nagi.alerts`: the silences of alerts, which last beyond a restart of the server.
//!
//! One document has all of them, at most one for each rule, so that it is replaced as a whole. Of several nodes that
//! share the data each has its own: a rule is about the figures of one server.

use nagi_bson::{DocBuf, Value};
use nagi_error::Result;
use nagi_store::Namespace;

use crate::core::server::Server;
use crate::fsync::Writer;
use crate::settings::persisted;

const ID: &str = "silences";
/// More than rules exist: what somebody else has written is not read without limit.
const SILENCES_MAX: usize = 1000;

fn namespace() -> Result<Namespace> {
    Namespace::new("local", "nagi.alerts")
}

impl Server {
    /// The `_id` of this server's document.
    fn silences_id(&self) -> String {
        match &self.router {
            Some(_) => format!("{ID} {}", self.host_and_port()),
            None => ID.to_owned(),
        }
    }

    /// The silences that were stored: names of rules, and when each ends, in milliseconds since 1970. None if they
    /// cannot be read, which is logged.
    pub fn alert_silences(&self) -> Vec<(String, i64)> {
        let id = self.silences_id();
        let found = namespace().and_then(|namespace| persisted::find(&self.store, &namespace, &id));
        match found {
            Ok(found) => found.map_or(Vec::new(), |doc| parse(&doc)),
            Err(error) => {
                log::warn!(target: "CONTROL", id = 8_200_375, error = error.message();
                    "The silences of alerts cannot be read");
                Vec::new()
            }
        }
    }

    /// Stores the silences, instead of those that were stored. A failure is logged: they are valid until the server
    /// stops. Returns false if they are to be stored later, because writes are blocked: the files may be copied.
    #[must_use]
    pub fn keep_alert_silences(&self, silences: &[(String, i64)]) -> bool {
        let Some(_writing) = self.upkeep.fsync.begin_write(Writer::New) else { return false };
        let doc = DocBuf::build(|out| {
            out.put("_id", self.silences_id().as_str());
            out.array("silences", |list| {
                for (rule, until_ms) in silences {
                    list.doc(|one| {
                        one.put("rule", rule.as_str());
                        one.put("until", Value::DateTime(*until_ms));
                    });
                }
            });
        });
        let namespace = namespace();
        let kept = namespace
            .and_then(|namespace| persisted::replace(&self.store, &namespace, doc.as_doc()));
        if let Err(error) = kept {
            log::warn!(target: "CONTROL", id = 8_200_376, error = error.message();
                "The silences of alerts cannot be stored: they end with the server");
        }
        true
    }
}

fn parse(doc: &DocBuf) -> Vec<(String, i64)> {
    let Value::Array(list) = doc.get("silences") else { return Vec::new() };
    let one = |value: Value<'_>| {
        let one = value.as_doc()?;
        match (one.get("rule"), one.get("until")) {
            (Value::String(rule), Value::DateTime(until_ms)) => Some((rule.to_owned(), until_ms)),
            _ => None,
        }
    };
    list.iter().take(SILENCES_MAX).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    #[test]
    fn documents_of_others_are_no_silences() {
        let parsed = |text: &str| parse(&json::parse(text).unwrap());
        assert_eq!(parsed("{_id: 'silences'}"), []);
        assert_eq!(parsed("{silences: 'all'}"), []);
        let mixed = "{silences: [1, {rule: 5, until: 1}, {rule: 'a'}, \
                     {rule: 'b', until: ISODate('1970-01-01T00:00:01Z')}]}";
        assert_eq!(parsed(mixed), [("b".to_owned(), 1000)]);
    }
}
