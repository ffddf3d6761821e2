//! The keyword `encrypt` of `$jsonSchema`: the client must have encrypted the value.
//!
//! The server has no keys. It checks that binary data has subtype 6 and reads the header before the ciphertext:
//!
//! ```text
//!   byte 0        kind of encryption
//!   bytes 1-16    identifier of the key
//!   byte 17       BSON type of the encrypted value
//! ```
//!
//! `encryptMetadata` provides defaults for the algorithm and the keys of `encrypt` on the client's side; the server
//! only checks its form.

use nagi_bson::{Doc, Type, Value};
use nagi_error::{Code, Result, bail};

use super::schema::{Dependency, Items, Node, Rest};
use super::schema_parse::Keyword;
use super::{Filter, TypeSet};

/// The binary subtype of data that a client has encrypted.
pub(super) const ENCRYPTED: u8 = 6;
/// The binary subtype of UUIDs.
pub(super) const UUID: u8 = 4;
/// The length of the header before the ciphertext.
pub(super) const HEAD_BYTES: usize = 18;
const ALGORITHMS: [&str; 2] =
    ["AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic", "AEAD_AES_256_CBC_HMAC_SHA_512-Random"];

/// The condition of `encrypt` on a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encrypt {
    types: Option<TypeSet>,
}

impl Encrypt {
    /// Parses the operand.
    ///
    /// # Errors
    /// 40415 for unknown fields, 14 for wrong types, 2 for an unsupported algorithm or an unknown type.
    pub(super) fn parse(doc: Doc<'_>) -> Result<Encrypt> {
        let mut encrypt = Encrypt { types: None };
        for field in doc {
            match field.name() {
                "bsonType" => {
                    let keyword = Keyword { name: "bsonType", value: field.value() };
                    encrypt.types = Some(keyword.types(TypeSet::by_name)?);
                }
                name => check_field("encrypt", name, field.value())?,
            }
        }
        Ok(encrypt)
    }

    pub(super) fn holds(self, value: Value<'_>) -> bool {
        let Value::Binary(data) = value else { return false };
        if data.subtype != ENCRYPTED {
            return false;
        }
        let Some(types) = self.types else { return true };
        // 1 is deterministic, 2 is random encryption; other kinds do not have the type at this position.
        match data.bytes {
            [1 | 2, rest @ ..] if rest.len() >= HEAD_BYTES - 1 => {
                Type::from_byte(rest[HEAD_BYTES - 2]).is_some_and(|kind| types.contains(kind))
            }
            _ => false,
        }
    }
}

impl Filter {
    /// Returns true if a `$jsonSchema` in the filter requires encrypted values. Such a validator must not only warn,
    /// because the log would then contain values that must stay secret.
    pub fn demands_encryption(&self) -> bool {
        match self {
            Filter::Schema(schema) => schema.root.demands_encryption(),
            Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
                all.iter().any(Filter::demands_encryption)
            }
            Filter::Not(inner) => inner.demands_encryption(),
            _ => false,
        }
    }
}

impl Node {
    fn demands_encryption(&self) -> bool {
        let rests = [&self.additional_items, &self.additional_properties];
        let rests = rests.into_iter().filter_map(|rest| match rest {
            Rest::Valid(node) => Some(&**node),
            Rest::Allowed | Rest::Forbidden => None,
        });
        let items: &[Node] = match &self.items {
            Items::Any => &[],
            Items::Each(node) => std::slice::from_ref(node),
            Items::List(nodes) => nodes,
        };
        let dependencies =
            self.dependencies.iter().filter_map(|(_, dependency)| match dependency {
                Dependency::Schema(node) => Some(&**node),
                Dependency::Fields(_) => None,
            });
        self.encrypt.is_some()
            || self.has_encrypt_metadata
            || [items, &self.all_of, &self.any_of, &self.one_of]
                .into_iter()
                .flatten()
                .chain(rests)
                .chain(dependencies)
                .chain(self.properties.iter().map(|(_, node)| node))
                .chain(self.pattern_properties.iter().map(|(_, node)| node))
                .chain(self.not.as_deref())
                .any(Node::demands_encryption)
    }
}

/// Checks the operand of `encryptMetadata`.
///
/// # Errors
/// As for [`Encrypt::parse`]; 9 if it is empty.
pub(super) fn check_metadata(doc: Doc<'_>) -> Result<()> {
    if doc.is_empty() {
        bail!(
            Code::FAILED_TO_PARSE,
            "$jsonSchema keyword 'encryptMetadata' cannot be an empty object"
        );
    }
    doc.iter().try_for_each(|field| check_field("encryptMetadata", field.name(), field.value()))
}

/// Checks one key of `keyId`.
fn check_key(key: Value<'_>) -> Result<()> {
    match key {
        Value::Binary(data) if data.subtype == UUID => Ok(()),
        Value::Binary(data) => bail!(
            Code::Location(51084),
            "Encryption schema 'keyId' array elements must have BinData type UUID, found {}",
            data.subtype
        ),
        other => bail!(
            Code::Location(51088),
            "Encryption schema 'keyId' array elements must have type BinData, found {}",
            other.kind().name()
        ),
    }
}

fn check_field(keyword: &str, name: &str, value: Value<'_>) -> Result<()> {
    let wrong = |expected: &str| {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{keyword}.{name}' is the wrong type '{}', expected type '{expected}'",
            value.kind().name()
        )
    };
    match (name, value) {
        ("algorithm", Value::String(text)) if ALGORITHMS.contains(&text) => Ok(()),
        ("algorithm", Value::String(text)) => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{text}' for field '{keyword}.algorithm' is not a valid value."
        ),
        ("algorithm", _) => wrong("string"),
        // A string is a JSON pointer to the field of the document that names the key.
        ("keyId", Value::String(pointer)) if pointer.starts_with('/') => Ok(()),
        ("keyId", Value::String(_)) => {
            bail!(Code::Location(51065), "JSONPointer must start with a '/'")
        }
        ("keyId", Value::Array(keys)) => keys.iter().try_for_each(check_key),
        ("keyId", _) => bail!(
            Code::Location(51085),
            "Expected either string or array of UUID for EncryptSchemaKeyId, found {}",
            value.kind().name()
        ),
        _ => bail!(Code::IDL_UNKNOWN_FIELD, "BSON field '{keyword}.{name}' is an unknown field."),
    }
}
