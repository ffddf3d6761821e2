//! The argument `encryptionInformation`:
//! `{type: 1, schema: {"db.collection": {escCollection, ecocCollection, fields}}}`.
//!
//! The schema repeats what the client knows of the encrypted fields. The server uses the option of the collection
//! instead, because its validator and the state collections depend on that. What both name must agree.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::{Collection, Namespace, Store};

use super::TAGS_BYTES_MAX;

/// Limit of the collections in a schema.
const NAMESPACES_MAX: usize = 100;

/// What the server provides.
#[derive(Debug, Clone, Copy)]
pub struct EncryptionOptions {
    /// Fills the array with random bytes, which must not be predictable.
    pub random: fn() -> Result<[u8; 16]>,
    /// Limit of the memory of tags in one query, in bytes.
    pub tags_bytes_max: usize,
    /// Queries test values instead of using tags.
    pub always_test_values: bool,
}

impl EncryptionOptions {
    /// The defaults, with a source of random bytes.
    pub fn new(random: fn() -> Result<[u8; 16]>) -> EncryptionOptions {
        EncryptionOptions { random, tags_bytes_max: TAGS_BYTES_MAX, always_test_values: false }
    }
}

/// The parsed argument.
#[derive(Clone)]
pub struct Encryption {
    pub(super) targets: Vec<Target>,
    pub(super) options: EncryptionOptions,
}

/// An encrypted collection and its state collections.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) collection: Arc<Collection>,
    pub(super) esc: Namespace,
    pub(super) ecoc: Namespace,
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.targets.iter().map(|target| target.collection.namespace.as_str());
        f.debug_list().entries(names).finish()
    }
}

impl Target {
    /// None if the collection has no encrypted fields.
    pub(super) fn of(collection: Arc<Collection>) -> Result<Option<Target>> {
        let Some(fields) = &collection.options.encrypted_fields else { return Ok(None) };
        let ns = &collection.namespace;
        let esc = Namespace::new(ns.database(), &fields.esc(ns.collection())?)?;
        let ecoc = Namespace::new(ns.database(), &fields.ecoc(ns.collection())?)?;
        Ok(Some(Target { collection, esc, ecoc }))
    }
}

impl Encryption {
    /// Parses the argument of a command. The schema has to contain `required`, the collection of the command, unless
    /// that may be joined with encrypted ones.
    ///
    /// # Errors
    /// 14, 40414, 40415 for its fields; 2 for an unknown type and for too many collections; 6371205 to 6371208 for a
    /// schema that does not contain the collection, or differs from its option.
    pub fn parse(
        store: &Store,
        required: Option<&Namespace>,
        argument: Value<'_>,
        options: EncryptionOptions,
    ) -> Result<Encryption> {
        let Value::Doc(information) = argument else {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'encryptionInformation' is the wrong type '{}', expected type 'object'",
                argument.kind().name()
            );
        };
        let schema = check_fields(information)?;
        if let Some(namespace) = required
            && schema.element(namespace.as_str()).is_none()
        {
            bail!(
                Code::Location(6_371_205),
                "Expected to find the namespace {namespace} in the schema of encryptionInformation"
            );
        }
        let mut targets = Vec::new();
        for (at, element) in schema.iter().enumerate() {
            if at == NAMESPACES_MAX {
                bail!(Code::BAD_VALUE, "The schema has more than {NAMESPACES_MAX} namespaces");
            }
            let Value::Doc(config) = element.value() else {
                bail!(
                    Code::Location(6_371_206),
                    "Expected an object for the schema of {} in encryptionInformation",
                    element.name()
                );
            };
            let ns = Namespace::parse(element.name())?;
            let collection = store.collection(&ns).filter(|found| !found.is_view());
            let Some(target) = collection.map(Target::of).transpose()?.flatten() else { continue };
            check_name(config, "escCollection", &target.esc)?;
            check_name(config, "ecocCollection", &target.ecoc)?;
            targets.push(target);
        }
        Ok(Encryption { targets, options })
    }

    /// The collection, if it has encrypted fields.
    pub(super) fn target(&self, namespace: &Namespace) -> Option<&Target> {
        self.targets.iter().find(|target| target.collection.namespace == *namespace)
    }

    /// Creates the state collections of `namespace` that do not exist, before a write.
    ///
    /// # Errors
    /// 6371209 if the collection has no encrypted fields; those of creating a collection.
    pub fn prepare(&self, store: &Store, namespace: &Namespace) -> Result<()> {
        let Some(target) = self.target(namespace) else {
            bail!(
                Code::Location(6_371_209),
                "Expected {namespace} to be a collection with encryptedFields, because the command has \
                 encryptionInformation"
            );
        };
        store.collection_or_create(&target.esc)?;
        store.collection_or_create(&target.ecoc)?;
        Ok(())
    }
}

/// Checks the fields of the argument; returns the schema.
fn check_fields(information: Doc<'_>) -> Result<Doc<'_>> {
    const NAME: &str = "encryptionInformation";
    for element in information {
        if !matches!(element.name(), "type" | "schema" | "deleteTokens" | "crudProcessed") {
            bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field '{NAME}.{}' is an unknown field.",
                element.name()
            );
        }
    }
    match nagi_bson::number::as_f64(information.get("type")) {
        Some(1.0) => {}
        Some(_) => bail!(Code::BAD_VALUE, "The type of encryptionInformation must be 1"),
        None => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{NAME}.type' is missing but a required field"
        ),
    }
    match information.get("schema") {
        Value::Doc(schema) => Ok(schema),
        Value::Missing => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{NAME}.schema' is missing but a required field"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{NAME}.schema' is the wrong type '{}', expected type 'object'",
            other.kind().name()
        ),
    }
}

/// A state collection that the schema names must be that of the collection's option.
fn check_name(config: Doc<'_>, field: &str, own: &Namespace) -> Result<()> {
    match config.get(field) {
        Value::Missing => Ok(()),
        Value::String(name) if name == own.collection() => Ok(()),
        Value::String(name) => bail!(
            Code::Location(6_371_207),
            "The schema of encryptionInformation has the {field} '{name}', the collection has '{}'",
            own.collection()
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'EncryptedFieldConfig.{field}' is the wrong type '{}', expected type 'string'",
            other.kind().name()
        ),
    }
}
