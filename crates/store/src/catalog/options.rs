//! Options of `create`, checked with MongoDB's error texts.

use std::sync::Arc;

use nagi_bson::{Array, ArrayBuf, Doc, DocBuf, DocWriter, Value, compare, number, text::doc_text};
use nagi_error::{Code, Result, bail};
use nagi_kv::{Compressor, Space};
use nagi_lang::{
    collation::{self, Collation},
    filter::EncryptedFields,
};

use super::{Uuid, clustered};
use crate::{
    Namespace,
    config_string::{TableConfig, check_engine, table_config},
    index::precondition::Precondition,
};

/// Smallest effective size; a smaller one may be listed.
const CAPPED_BYTES_MIN: i64 = 4096;

/// Largest capped collection: one petabyte.
const CAPPED_BYTES_MAX: i64 = 1 << 50;

/// The definition of a view.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    pub on: Namespace,
    /// An array of stages.
    pub pipeline: ArrayBuf,
}

/// The writes that a validator checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValidationLevel {
    Off,
    #[default]
    Strict,
    /// Inserts, and updates of documents that are already valid.
    Moderate,
}

/// The effect of a failed validation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValidationAction {
    #[default]
    Error,
    /// The write is logged and executed.
    Warn,
}

/// Options of `create`.
#[derive(Clone, Debug, Default)]
pub struct CollectionOptions {
    /// The options as given, for `listCollections`.
    pub doc: DocBuf,
    pub capped: bool,
    /// For a capped collection: the listed size; its effective size is [`CollectionOptions::capped_bytes_max`].
    pub size_bytes_max: Option<i64>,
    /// For a capped collection.
    pub count_max: Option<i64>,
    pub view: Option<ViewOptions>,
    pub validator: Option<DocBuf>,
    pub validation_level: ValidationLevel,
    pub validation_action: ValidationAction,
    /// The fields that clients encrypt: their values are checked as by a validator.
    pub encrypted_fields: Option<EncryptedFields>,
    /// The default collation of operations, of the validator, and of indexes created without one; for a view, the
    /// collation of all operations on it.
    pub collation: Option<&'static Collation>,
    /// For a clustered collection: the name of its clustered index.
    pub clustered: Option<Box<str>>,
    /// For a time series collection, and for the collection with its buckets.
    pub timeseries: Option<Arc<nagi_timeseries::Options>>,
    /// For a clustered collection: how long after the date in `_id` a document is deleted; for buckets: how long after
    /// the last time in the bucket.
    pub expire_after_seconds: Option<i64>,
    /// The change log has the documents before changes (`changeStreamPreAndPostImages`).
    pub pre_images: bool,
    /// The version that `idIndex` requests; none is 2.
    pub(crate) id_index_version: Option<i32>,
}

impl CollectionOptions {
    /// Checks the options of `create` (without the `create` field and generic arguments).
    pub fn parse(options: Doc<'_>, namespace: &Namespace) -> Result<CollectionOptions> {
        let mut parsed = CollectionOptions::default();
        for element in options {
            parsed.field(element.name(), element.value(), (options, namespace))?;
        }
        parsed.check_clustered(options)?;
        parsed.check_capped(options)?;
        parsed.view = view(options, namespace)?;
        parsed.doc = DocBuf::build(|w| {
            for element in options {
                match element.name() {
                    // Defaults, and options that are stored elsewhere, are not listed.
                    "autoIndexId" | "idIndex" => {}
                    "clusteredIndex" if parsed.is_buckets(namespace) => {
                        w.put("clusteredIndex", true);
                    }
                    "timeseries" => {
                        if let Some(timeseries) = &parsed.timeseries {
                            w.put("timeseries", &timeseries.to_doc());
                        }
                    }
                    "clusteredIndex" => {
                        if let Some(name) = &parsed.clustered {
                            w.put("clusteredIndex", &clustered::listed(name));
                        }
                    }
                    "expireAfterSeconds" => {
                        w.put("expireAfterSeconds", parsed.expire_after_seconds.unwrap_or(0));
                    }
                    "capped" if !element.value().is_truthy() => {}
                    // No limit is listed as the greatest one.
                    "max" if parsed.capped && parsed.count_max.is_none() => w.put("max", i32::MAX),
                    "max" if parsed.capped => {
                        put_whole("max", parsed.count_max.unwrap_or_default(), w)
                    }
                    "size" if parsed.capped => {
                        put_whole("size", parsed.size_bytes_max.unwrap_or_default(), w);
                    }
                    // Listed in full; the simple collation is omitted.
                    "collation" => collation::put(parsed.collation, "collation", w),
                    name => w.put(name, element.value()),
                }
            }
        });
        Ok(parsed)
    }

    /// True if these are the options of a collection with buckets.
    pub(crate) fn is_buckets(&self, namespace: &Namespace) -> bool {
        self.timeseries.is_some() && namespace.is_buckets()
    }

    /// The space of a new collection's records, which may choose a compressor. Codes 2, 9, 14, 72, 115.
    pub(crate) fn space(&self) -> Result<Space> {
        let engine = self.doc.get("storageEngine").as_doc().unwrap_or(Doc::EMPTY);
        let config = table_options(engine)?;
        Ok(config.compressor.map_or(Space::Records, Compressor::space))
    }

    /// Limit of the documents of a capped collection, as `listCollections` and `collStats` show it: 0 if none was
    /// given, the largest int32 for no limit.
    pub fn count_max_listed(&self) -> i64 {
        number::truncate_to_i64(self.doc.get("max")).unwrap_or(0)
    }

    /// Limit of the bytes of a capped collection.
    pub fn capped_bytes_max(&self) -> i64 {
        self.size_bytes_max.map_or(i64::MAX, |size| size.max(CAPPED_BYTES_MIN))
    }

    /// True if the next start drops it (`temp`).
    pub fn is_temporary(&self) -> bool {
        self.doc.get("temp").is_truthy()
    }

    pub(crate) fn set_temporary(&mut self, temporary: bool) {
        if temporary == self.is_temporary() {
            return;
        }
        self.doc = DocBuf::build(|w| {
            self.doc
                .as_doc()
                .iter()
                .filter(|e| e.name() != "temp")
                .for_each(|e| w.put(e.name(), e.value()));
            if temporary {
                w.put("temp", true);
            }
        });
    }

    /// The parsed validator.
    pub(crate) fn condition(&self) -> Result<Option<Precondition>> {
        let Some(validator) = &self.validator else { return Ok(None) };
        let condition = Precondition::validator(validator.as_doc(), self.collation)?;
        let lenient = self.validation_level == ValidationLevel::Moderate
            || self.validation_action == ValidationAction::Warn
            || self.encrypted_fields.is_some();
        if lenient && condition.filter.demands_encryption() {
            bail!(
                Code::QUERY_FEATURE_NOT_ALLOWED,
                "Encryption-related validator keywords are not allowed in this context"
            );
        }
        Ok(Some(condition))
    }

    /// Refuses a validator on collections of the server's own.
    pub(crate) fn check_place(&self, namespace: &Namespace, uuid: Uuid) -> Result<()> {
        if self.validator.is_none() {
            return Ok(());
        }
        if namespace.is_system() && !self.is_buckets(namespace) {
            bail!(
                Code::INVALID_OPTIONS,
                "Document validators not allowed on system collection {namespace} with UUID {uuid}"
            );
        }
        let database = namespace.database();
        let internal = matches!(database, "admin" | "config" | "local");
        if internal && namespace.as_str() != "config.settings" {
            bail!(
                Code::INVALID_OPTIONS,
                "Document validators are not allowed on collection {namespace} with UUID {uuid} in \
                 the {database} internal database"
            );
        }
        Ok(())
    }

    /// Returns true if `create` with these options is idempotent for a collection that has `self`.
    pub(crate) fn same(&self, other: &CollectionOptions) -> bool {
        let sorted = |options: &CollectionOptions| {
            let mut fields: Vec<(String, nagi_bson::ValueBuf)> = options
                .doc
                .as_doc()
                .iter()
                .map(|e| (e.name().to_owned(), e.value().into()))
                .collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields
        };
        let (a, b) = (sorted(self), sorted(other));
        a.len() == b.len()
            && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && compare::equal(a.1.value(), b.1.value()))
    }

    fn field(
        &mut self,
        name: &str,
        value: Value<'_>,
        (options, namespace): (Doc<'_>, &Namespace),
    ) -> Result<()> {
        match name {
            "capped" => {
                if !matches!(value, Value::Bool(_)) && !value.is_number() {
                    bail!(Code::TYPE_MISMATCH, "'capped' has to be a bool.");
                }
                self.capped = value.is_truthy();
            }
            "size" | "max" => check_number(name, value)?,
            "validator" => match value {
                Value::Doc(filter) => {
                    self.validator = (!filter.is_empty()).then(|| filter.to_buf())
                }
                _ => bail!(Code::BAD_VALUE, "'validator' has to be a document."),
            },
            "validationLevel" => self.validation_level = validation_level(value)?,
            "validationAction" => self.validation_action = validation_action(value)?,
            "storageEngine" => check_engine(value)?,
            "indexOptionDefaults" => check_index_defaults(value)?,
            "idIndex" => self.id_index_version = Some(id_index_version(value)?),
            "autoIndexId" if !value.is_truthy() => bail!(
                Code::Location(50001),
                "autoIndexId:false is not allowed for collections outside the local database"
            ),
            "collation" => self.collation = parse_collation(value)?,
            "autoIndexId" | "viewOn" | "pipeline" | "recordIdsReplicated" | "flags" | "temp" => {}
            "changeStreamPreAndPostImages" => {
                self.pre_images = value.as_doc().is_some_and(|v| v.get("enabled").is_truthy());
            }
            "encryptedFields" => {
                self.encrypted_fields = value.as_doc().map(EncryptedFields::read);
            }
            // The form that clustered collections of the server's own have.
            "clusteredIndex" if value == Value::Bool(true) && namespace.is_buckets() => {
                self.clustered = Some(clustered::DEFAULT_NAME.into());
            }
            "clusteredIndex" => self.clustered = clustered::parse(value)?,
            "expireAfterSeconds" => self.expire_after_seconds = clustered::expire_after(value)?,
            "timeseries" => self.timeseries = Some(timeseries(value, namespace)?),
            _ => bail!(
                Code::INVALID_OPTIONS,
                "The field '{name}' is not a valid collection option. Options: {}",
                doc_text(options)
            ),
        }
        Ok(())
    }

    fn check_capped(&mut self, options: Doc<'_>) -> Result<()> {
        let whole = |name| number::truncate_to_i64(options.get(name));
        if !self.capped {
            return Ok(());
        }
        match whole("size") {
            None => {
                bail!(Code::INVALID_OPTIONS, "the 'size' field is required when 'capped' is true")
            }
            Some(size) => {
                self.size_bytes_max = Some(size.clamp(0, CAPPED_BYTES_MAX));
            }
        }
        self.count_max = whole("max").filter(|max| *max > 0 && *max < i64::from(i32::MAX));
        Ok(())
    }
}

/// Writes a number of bytes or documents, as int32 if it fits.
fn put_whole(name: &str, n: i64, out: &mut DocWriter<'_>) {
    match i32::try_from(n) {
        Ok(small) => out.put(name, small),
        Err(_) => out.put(name, n),
    }
}

fn check_number(name: &str, value: Value<'_>) -> Result<()> {
    let Some(n) = number::as_f64(value) else {
        bail!(Code::TYPE_MISMATCH, "'{name}' has to be a number.");
    };
    if name == "size" && n <= -1.0 {
        bail!(Code::BAD_VALUE, "size has to be >= 0");
    }
    if name == "size" && n > CAPPED_BYTES_MAX as f64 {
        bail!(Code::BAD_VALUE, "size cannot exceed 1 PB");
    }
    Ok(())
}

/// Parses the `validationLevel` of `create` and `collMod`.
pub(crate) fn validation_level(value: Value<'_>) -> Result<ValidationLevel> {
    Ok(match value.as_str() {
        Some("off") => ValidationLevel::Off,
        Some("" | "strict") => ValidationLevel::Strict,
        Some("moderate") => ValidationLevel::Moderate,
        Some(other) => bail!(Code::BAD_VALUE, "invalid validation level: {other}"),
        None => bail!(Code::BAD_VALUE, "'validationLevel' has to be a string."),
    })
}

/// Parses the `validationAction` of `create` and `collMod`.
pub(crate) fn validation_action(value: Value<'_>) -> Result<ValidationAction> {
    Ok(match value.as_str() {
        Some("" | "error") => ValidationAction::Error,
        Some("warn") => ValidationAction::Warn,
        Some(other) => bail!(Code::BAD_VALUE, "invalid validation action: {other}"),
        None => bail!(Code::BAD_VALUE, "'validationAction' has to be a string."),
    })
}

/// Parses `storageEngine` of a collection or an index: `{wiredTiger: {configString: "..."}}`.
pub(crate) fn table_options(engine: Doc<'_>) -> Result<TableConfig> {
    let mut config = TableConfig::default();
    for element in engine.get("wiredTiger").as_doc().unwrap_or(Doc::EMPTY) {
        match (element.name(), element.value()) {
            ("configString", Value::String(text)) if text.contains('\0') => {
                bail!(Code::FAILED_TO_PARSE, "malformed 'configString' value.")
            }
            ("configString", Value::String(text)) => config = table_config(text)?,
            ("configString", _) => bail!(Code::TYPE_MISMATCH, "'configString' must be a string."),
            (name, _) => bail!(Code::INVALID_OPTIONS, "'{name}' is not a supported option."),
        }
    }
    Ok(config)
}

fn timeseries(value: Value<'_>, namespace: &Namespace) -> Result<Arc<nagi_timeseries::Options>> {
    let Value::Doc(options) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'create.timeseries' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        )
    };
    nagi_timeseries::Options::parse(options, namespace.as_str()).map(Arc::new)
}

fn check_index_defaults(value: Value<'_>) -> Result<()> {
    let Value::Doc(defaults) = value else {
        bail!(Code::TYPE_MISMATCH, "'indexOptionDefaults' has to be a document.");
    };
    match defaults.iter().find(|element| element.name() != "storageEngine") {
        Some(element) => bail!(
            Code::INVALID_OPTIONS,
            "indexOptionDefaults.{} is not a supported option.",
            element.name()
        ),
        None => Ok(()),
    }
}

fn id_index_version(value: Value<'_>) -> Result<i32> {
    let Value::Doc(spec) = value else {
        bail!(Code::TYPE_MISMATCH, "'idIndex' has to be a document: idIndex: {value}");
    };
    let Value::Doc(key) = spec.get("key") else {
        bail!(
            Code::FAILED_TO_PARSE,
            "The 'key' field is a required property of an index specification"
        );
    };
    if key.count() != 1 || number::as_f64(key.get("_id")) != Some(1.0) {
        bail!(
            Code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
            doc_text(key)
        );
    }
    match spec.get("v") {
        Value::Missing => Ok(2),
        version => match number::as_i64_exact(version) {
            Some(1) => Ok(1),
            Some(2) => Ok(2),
            _ => bail!(
                Code::CANNOT_CREATE_INDEX,
                "Invalid index specification {}; cannot create an index with v={version}",
                doc_text(spec)
            ),
        },
    }
}

fn parse_collation(value: Value<'_>) -> Result<Option<&'static Collation>> {
    let Value::Doc(collation) = value else {
        bail!(Code::BAD_VALUE, "'collation' has to be a document.");
    };
    if collation.is_empty() {
        bail!(Code::BAD_VALUE, "'collation' cannot be an empty document.");
    }
    Collation::parse(collation)
}

fn view(options: Doc<'_>, namespace: &Namespace) -> Result<Option<ViewOptions>> {
    let pipeline = match options.get("pipeline") {
        Value::Array(pipeline) => Some(pipeline),
        Value::Missing => None,
        _ => bail!(Code::BAD_VALUE, "'pipeline' has to be an array."),
    };
    let on = match options.get("viewOn") {
        Value::String("") => bail!(Code::BAD_VALUE, "'viewOn' cannot be empty.'"),
        Value::String(on) => on,
        Value::Missing if pipeline.is_some() => {
            bail!(Code::INVALID_OPTIONS, "'pipeline' requires 'viewOn' to also be specified")
        }
        Value::Missing => return Ok(None),
        _ => bail!(Code::BAD_VALUE, "'viewOn' has to be a string."),
    };
    let on = Namespace::new(namespace.database(), on)?;
    if namespace.is_system() {
        bail!(
            Code::INVALID_NAMESPACE,
            "View name cannot start with 'system.', which is reserved for system namespaces"
        );
    }
    let pipeline = pipeline.unwrap_or(Array::EMPTY).to_buf();
    Ok(Some(ViewOptions { on, pipeline }))
}
