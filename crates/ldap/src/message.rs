//! The messages of LDAP that a login needs (RFC 4511): bind, search, unbind, and their answers.

use zeroize::Zeroizing;

use crate::ber::{self, BOOLEAN, ENUMERATED, INTEGER, Malformed, OCTETS, Reader, SEQUENCE, SET};
use crate::query::Search;

/// The longest text of a server that is kept for the log, in characters.
const TEXT_CHARS_MAX: usize = 200;

const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;
const EXTENDED_RESPONSE: u8 = 0x78;

/// The result codes (RFC 4511, appendix A) that are told apart.
pub(crate) mod code {
    pub(crate) const SUCCESS: i32 = 0;
    pub(crate) const REFERRAL: i32 = 10;
    pub(crate) const CONSTRAINT_VIOLATION: i32 = 19;
    pub(crate) const NO_SUCH_OBJECT: i32 = 32;
    pub(crate) const INVALID_DN: i32 = 34;
    pub(crate) const INAPPROPRIATE_AUTHENTICATION: i32 = 48;
    pub(crate) const INVALID_CREDENTIALS: i32 = 49;
    pub(crate) const INSUFFICIENT_RIGHTS: i32 = 50;
    pub(crate) const BUSY: i32 = 51;
    pub(crate) const UNAVAILABLE: i32 = 52;
    pub(crate) const UNWILLING: i32 = 53;
}

/// The names of the result codes (RFC 4511, appendix A).
const CODE_NAMES: &[(i32, &str)] = &[
    (0, "success"),
    (1, "operationsError"),
    (2, "protocolError"),
    (3, "timeLimitExceeded"),
    (4, "sizeLimitExceeded"),
    (5, "compareFalse"),
    (6, "compareTrue"),
    (7, "authMethodNotSupported"),
    (8, "strongerAuthRequired"),
    (10, "referral"),
    (11, "adminLimitExceeded"),
    (12, "unavailableCriticalExtension"),
    (13, "confidentialityRequired"),
    (14, "saslBindInProgress"),
    (16, "noSuchAttribute"),
    (17, "undefinedAttributeType"),
    (18, "inappropriateMatching"),
    (19, "constraintViolation"),
    (20, "attributeOrValueExists"),
    (21, "invalidAttributeSyntax"),
    (32, "noSuchObject"),
    (33, "aliasProblem"),
    (34, "invalidDNSyntax"),
    (36, "aliasDereferencingProblem"),
    (48, "inappropriateAuthentication"),
    (49, "invalidCredentials"),
    (50, "insufficientAccessRights"),
    (51, "busy"),
    (52, "unavailable"),
    (53, "unwillingToPerform"),
    (54, "loopDetect"),
    (64, "namingViolation"),
    (65, "objectClassViolation"),
    (66, "notAllowedOnNonLeaf"),
    (67, "notAllowedOnRDN"),
    (68, "entryAlreadyExists"),
    (69, "objectClassModsProhibited"),
    (71, "affectsMultipleDSAs"),
    (80, "other"),
];

/// The name of a result code; of one that the RFC does not have, "result code".
pub(crate) fn code_name(code: i32) -> &'static str {
    CODE_NAMES.iter().find(|(known, _)| *known == code).map_or("result code", |(_, name)| name)
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    /// The server's text, without control characters.
    pub(crate) text: String,
}

/// An entry that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The attributes, with their values that are text.
    pub(crate) attributes: Vec<(String, Vec<String>)>,
}

impl Entry {
    /// The number of its values.
    pub(crate) fn value_count(&self) -> usize {
        self.attributes.iter().map(|(_, values)| values.len()).sum()
    }

    /// What a search asked for: the values of its attributes, or without attributes the name of the entry. Nothing if
    /// the server answered with an entry or with attributes that were not asked for.
    pub(crate) fn found_by(self, search: &Search) -> Vec<String> {
        if !search.covers(&self.name) {
            return Vec::new();
        }
        match search.attributes.is_empty() {
            true => vec![self.name],
            false => {
                let asked = self.attributes.into_iter().filter(|(name, _)| search.asks_for(name));
                asked.flat_map(|(_, values)| values).collect()
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Bound(Outcome),
    Found(Entry),
    Done(Outcome),
    /// A part of the tree is on another server. Referrals are not followed.
    Reference,
    /// The server is about to close the connection.
    Disconnects(Outcome),
}

fn message(id: u32, build: impl FnOnce(&mut Vec<u8>)) -> Zeroizing<Vec<u8>> {
    // Long enough for names and passwords, so that the vector does not move and leave copies.
    let mut out = Zeroizing::new(Vec::with_capacity(16 * 1024));
    ber::nested(&mut out, SEQUENCE, |out| {
        ber::integer(out, INTEGER, id);
        build(out);
    });
    out
}

/// A simple bind.
pub(crate) fn bind(id: u32, name: &str, password: &str) -> Zeroizing<Vec<u8>> {
    message(id, |out| {
        ber::nested(out, BIND_REQUEST, |out| {
            ber::integer(out, INTEGER, 3);
            ber::element(out, OCTETS, name.as_bytes());
            ber::element(out, 0x80, password.as_bytes());
        });
    })
}

/// A search that finds at most `entries_max` entries within `seconds_max`.
pub(crate) fn search(
    id: u32,
    search: &Search,
    entries_max: u32,
    seconds_max: u32,
) -> Zeroizing<Vec<u8>> {
    message(id, |out| {
        ber::nested(out, SEARCH_REQUEST, |out| {
            ber::element(out, OCTETS, search.base.as_bytes());
            ber::integer(out, ENUMERATED, search.scope as u32);
            // Aliases are not followed: they could lead to the entry of another user.
            ber::integer(out, ENUMERATED, 0);
            ber::integer(out, INTEGER, entries_max);
            ber::integer(out, INTEGER, seconds_max);
            ber::element(out, BOOLEAN, &[0]);
            out.extend_from_slice(&search.filter);
            ber::nested(out, SEQUENCE, |out| match search.attributes.as_slice() {
                // "1.1" is no attribute.
                [] => ber::element(out, OCTETS, b"1.1"),
                all => all.iter().for_each(|name| ber::element(out, OCTETS, name.as_bytes())),
            });
        });
    })
}

/// The end of a connection.
pub(crate) fn unbind(id: u32) -> Zeroizing<Vec<u8>> {
    message(id, |out| out.extend_from_slice(&[UNBIND_REQUEST, 0]))
}

/// Reads the contents of a message: the id and the answer.
pub(crate) fn response(contents: &[u8]) -> Result<(i32, Response), Malformed> {
    let mut message = Reader::new(contents);
    let id = message.integer(INTEGER)?;
    let (tag, body) = message.next()?;
    let response = match tag {
        BIND_RESPONSE => Response::Bound(outcome(body)?),
        SEARCH_DONE => Response::Done(outcome(body)?),
        SEARCH_ENTRY => Response::Found(entry(body)?),
        SEARCH_REFERENCE => Response::Reference,
        // The only message without a request is the notice of disconnection.
        EXTENDED_RESPONSE if id == 0 => Response::Disconnects(outcome(body)?),
        _ => return Err(Malformed),
    };
    Ok((id, response))
}

fn outcome(body: &[u8]) -> Result<Outcome, Malformed> {
    let mut reader = Reader::new(body);
    let code = reader.integer(ENUMERATED)?;
    reader.expect(OCTETS)?;
    let text = String::from_utf8_lossy(reader.expect(OCTETS)?);
    let text = text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect();
    Ok(Outcome { code, text })
}

fn entry(body: &[u8]) -> Result<Entry, Malformed> {
    let mut reader = Reader::new(body);
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed);
    let name = text(reader.expect(OCTETS)?)?;
    let mut list = Reader::new(reader.expect(SEQUENCE)?);
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut attribute = Reader::new(list.expect(SEQUENCE)?);
        let attribute_name = text(attribute.expect(OCTETS)?)?;
        let mut values = Vec::new();
        let mut set = Reader::new(attribute.expect(SET)?);
        while !set.is_empty() {
            // A value that is not text is no name.
            values.extend(text(set.expect(OCTETS)?));
        }
        attributes.push((attribute_name, values));
    }
    Ok(Entry { name, attributes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contents(bytes: &[u8]) -> &[u8] {
        Reader::new(bytes).expect(SEQUENCE).unwrap()
    }

    /// The bytes of RFC 4511's answer to a bind, as OpenLDAP sends it.
    #[test]
    fn answers_of_a_server() {
        let bytes =
            [0x30, 0x0C, 0x02, 0x01, 0x01, 0x61, 0x07, 0x0A, 0x01, 0x31, 0x04, 0x00, 0x04, 0x00];
        let refused = Outcome { code: code::INVALID_CREDENTIALS, text: String::new() };
        assert_eq!(response(contents(&bytes)), Ok((1, Response::Bound(refused))));

        let mut bytes = Vec::new();
        ber::nested(&mut bytes, SEQUENCE, |out| {
            ber::integer(out, INTEGER, 300);
            ber::nested(out, SEARCH_ENTRY, |out| {
                ber::element(out, OCTETS, b"cn=ann");
                ber::nested(out, SEQUENCE, |out| {
                    ber::nested(out, SEQUENCE, |out| {
                        ber::element(out, OCTETS, b"memberOf");
                        ber::nested(out, SET, |out| {
                            ber::element(out, OCTETS, b"cn=a");
                            ber::element(out, OCTETS, &[0xFF]);
                            ber::element(out, OCTETS, b"cn=b");
                        });
                    });
                });
            });
        });
        let values = vec!["cn=a".to_owned(), "cn=b".to_owned()];
        let attributes = vec![("memberOf".to_owned(), values.clone())];
        let entry = Entry { name: "cn=ann".into(), attributes };
        assert_eq!(response(contents(&bytes)), Ok((300, Response::Found(entry.clone()))));

        let search = |base: &str, attribute: &str| Search {
            base: base.to_owned(),
            attributes: vec![attribute.to_owned()],
            scope: crate::query::Scope::Base,
            filter: Vec::new(),
            is_of_user: true,
        };
        assert_eq!(entry.clone().found_by(&search("CN=Ann", "memberof")), values);
        assert!(entry.clone().found_by(&search("cn=ann", "description")).is_empty());
        assert!(entry.found_by(&search("cn=bob", "memberOf")).is_empty());
    }

    #[test]
    fn a_bind_is_in_one_piece_of_memory() {
        let password = "p".repeat(4096);
        let request = bind(7, &"n".repeat(4096), &password);
        assert!(request.capacity() == 16 * 1024 && request.ends_with(password.as_bytes()));
    }

    proptest! {
        /// Any bytes of a server are an answer or are refused, also if they begin well.
        #[test]
        fn any_answer(tag in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = response(&bytes);
            let mut message = vec![0x02, 0x01, 0x01];
            ber::element(&mut message, tag, &bytes);
            let _ = response(&message);
        }
    }
}
