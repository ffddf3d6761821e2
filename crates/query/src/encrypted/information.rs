//! The argument `encryptionInformation`:
//! `{type: 1, schema: {"db.collection": {escCollection, ecocCollection, fields}}}`.
//!
//! The schema repeats what the client knows of the encrypted fields. The server uses the option of the collection
//! instead, because its validator and the state collections depend on that. What both name must agree.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_store::{Collection, Namespace, Reader, Store};

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
    /// None if the collection has no encrypted fields, or is a view.
    pub(super) fn of(collection: Arc<Collection>) -> Result<Option<Target>> {
        let Some(fields) = &collection.options.encrypted_fields else { return Ok(None) };
        let ns = &collection.namespace;
        let esc = Namespace::new(ns.database(), &fields.esc(ns.collection())?)?;
        let ecoc = Namespace::new(ns.database(), &fields.ecoc(ns.collection())?)?;
        Ok(Some(Target { collection, esc, ecoc }))
    }

    pub(super) fn has_documents(&self, reader: Reader<'_>) -> Result<bool> {
        reader.scan(&self.collection, true)?.advance()
    }

    /// The collection has documents, but ESC is missing: their tags are unknown, and the numbers of new ones too.
    #[cold]
    pub(super) fn without_esc(&self) -> Error {
        err!(
            Code::NAMESPACE_NOT_FOUND,
            "The state collection {} of the encrypted collection {} does not exist",
            self.esc,
            self.collection.namespace
        )
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
            let Some(collection) = store.collection(&ns) else { continue };
            let Some(target) = Target::of(collection)? else {
                // A client may list collections that are joined, without fields.
                let is_plain =
                    config.get("fields").as_array().is_none_or(|fields| fields.is_empty());
                match is_plain && required != Some(&ns) {
                    true => continue,
                    false => return Err(not_encrypted(&ns)),
                }
            };
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
    /// 6371209 if the collection has no encrypted fields; 26 if it has documents but no ESC; those of creating a
    /// collection.
    pub fn prepare(&self, store: &Store, namespace: &Namespace) -> Result<()> {
        let Some(target) = self.target(namespace) else {
            return Err(not_encrypted(namespace));
        };
        if store.collection(&target.esc).is_none() {
            if target.has_documents(store.snapshot()?.reader())? {
                return Err(target.without_esc());
            }
            create_state(store, &target.esc)?;
        }
        match store.collection(&target.ecoc) {
            Some(_) => Ok(()),
            None => create_state(store, &target.ecoc),
        }
    }
}

/// Creates a state collection as drivers do.
fn create_state(store: &Store, namespace: &Namespace) -> Result<()> {
    let options = DocBuf::build(|out| {
        out.doc("clusteredIndex", |out| {
            out.doc("key", |out| out.put("_id", 1));
            out.put("unique", true);
        });
    });
    match store.create_collection(namespace, options.as_doc()) {
        // Another client was first.
        Err(_) if store.collection(namespace).is_some() => Ok(()),
        done => done.map(drop),
    }
}

#[cold]
fn not_encrypted(namespace: &Namespace) -> Error {
    err!(
        Code::Location(6_371_209),
        "Expected {namespace} to be a collection with encryptedFields, because the command has \
         encryptionInformation"
    )
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
