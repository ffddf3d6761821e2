//! An index specification: key pattern and options, checked with MongoDB's error texts.
//!
//! `createIndexes` receives `{key, name, options...}`; the stored and listed form is `{v, key, name, options...}`
//! with flags as booleans, and without false ones.

use std::sync::Arc;

use nagi_bson::{
    Doc, DocBuf, Type, Value, compare, number,
    text::{doc_text, value_text},
};
use nagi_error::{Code, Result, bail};
use nagi_lang::collation::{self, Collation};

use super::{
    IndexKind, PathField,
    kind::{self, Completed, Content, Details, NamedBy, PATH_FIELD},
    kinds,
};
use crate::Namespace;

/// Limit of the fields of a key pattern.
const FIELD_COUNT_MAX: usize = 32;
/// Largest `expireAfterSeconds`.
pub(crate) const EXPIRE_SECONDS_MAX: i64 = i32::MAX as i64;

/// One field of a key pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPart {
    /// Dotted path.
    pub path: Box<str>,
    pub descending: bool,
    pub(super) content: Content,
}

impl KeyPart {
    /// Returns true if keys contain the field's values, and not a substitute.
    pub fn holds_value(&self) -> bool {
        !self.is_hashed() && !self.is_geometry()
    }

    /// Keys contain hashes of the field's values.
    pub fn is_hashed(&self) -> bool {
        self.content == Content::Hashes
    }

    /// The field holds geometries.
    pub fn is_geometry(&self) -> bool {
        self.content == Content::Cells
    }

    /// The field stands for terms; the next field has their scores.
    pub fn is_term(&self) -> bool {
        self.content == Content::Terms
    }
}

/// A checked specification.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    pub name: Box<str>,
    pub kind: IndexKind,
    pub key: Box<[KeyPart]>,
    /// The key pattern as the user wrote it.
    pub key_pattern: DocBuf,
    pub unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    pub prepare_unique: bool,
    pub partial: Option<DocBuf>,
    /// For an index on buckets: what the client of the time series asked for, if the key pattern does not say it.
    pub original: Option<DocBuf>,
    pub expire_after_seconds: Option<i64>,
    /// What the kind parsed from its options.
    details: Option<Arc<dyn Details>>,
    /// The collation of strings; none means byte order. Keys contain collation keys instead of strings.
    pub collation: Option<&'static Collation>,
    /// The row of `listIndexes`: `{v, key, name, options...}`.
    pub doc: DocBuf,
}

/// The required type of an option.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    Flag,
    Number,
    Document,
    Text,
    DocumentOrText,
    /// Accepted and dropped.
    Ignored,
}

/// Options of all kinds besides `key`, `name` and `v`. Rows of kinds have further ones.
static OPTIONS: &[(&str, Shape)] = &[
    ("background", Shape::Flag),
    ("bucketSize", Shape::Number),
    ("clustered", Shape::Flag),
    ("collation", Shape::Document),
    ("dropDups", Shape::Ignored),
    ("expireAfterSeconds", Shape::Number),
    ("hidden", Shape::Flag),
    ("ns", Shape::Ignored),
    (ORIGINAL, Shape::Document),
    ("partialFilterExpression", Shape::Document),
    ("prepareUnique", Shape::Flag),
    ("sparse", Shape::Flag),
    ("storageEngine", Shape::Document),
    ("unique", Shape::Flag),
];

/// An option that only indexes on buckets have.
const ORIGINAL: &str = "originalSpec";

impl IndexSpec {
    /// The index that every collection has.
    pub fn id() -> IndexSpec {
        IndexSpec::id_of_version(2, None)
    }

    /// The same, listed with the version that old clients request: 1 or 2. The keys are the same.
    pub(crate) fn id_of_version(version: i32, collation: Option<&'static Collation>) -> IndexSpec {
        let key = KeyPart { path: "_id".into(), descending: false, content: Content::Values };
        let doc = DocBuf::build(|w| {
            w.put("v", version);
            w.doc("key", |w| w.put("_id", 1));
            w.put("name", "_id_");
            collation::put(collation, "collation", w);
        });
        IndexSpec {
            name: "_id_".into(),
            kind: IndexKind::ordinary(),
            key: [key].into(),
            key_pattern: nagi_bson::doc! { "_id": 1 },
            unique: true,
            sparse: false,
            hidden: false,
            prepare_unique: false,
            partial: None,
            original: None,
            expire_after_seconds: None,
            details: None,
            collation,
            doc,
        }
    }

    /// The index on `_id` of a clustered collection.
    pub(crate) fn clustered(name: &str, collation: Option<&'static Collation>) -> IndexSpec {
        let mut spec = IndexSpec::id_of_version(2, collation);
        spec.name = name.into();
        spec.doc = DocBuf::build(|w| {
            w.put("v", 2);
            w.doc("key", |w| w.put("_id", 1));
            w.put("name", name);
            w.put("unique", true);
            w.put("clustered", true);
            collation::put(collation, "collation", w);
        });
        spec
    }

    /// Returns true if this is the index of a clustered collection that stands for its records.
    pub fn is_clustered(&self) -> bool {
        self.is_id() && self.doc.get("clustered").is_truthy()
    }

    /// Checks one element of `createIndexes.indexes`. Codes 2, 9, 14, 67, 115, 197, 16764.
    pub fn parse(spec: Doc<'_>, namespace: &Namespace) -> Result<IndexSpec> {
        IndexSpec::parse_with(spec, namespace, false, None)
    }

    /// Like [`IndexSpec::parse`]; with `ignoreUnknownIndexOptions`, unknown options are dropped. `default` is the
    /// collation of an index that specifies none; `_id` always has it.
    pub fn parse_with(
        spec: Doc<'_>,
        namespace: &Namespace,
        ignore_unknown: bool,
        default: Option<&'static Collation>,
    ) -> Result<IndexSpec> {
        let collation = match spec.get("collation") {
            Value::Doc(given) => Collation::parse(given)?,
            _ => default,
        };
        let spec = check_options(spec, namespace, ignore_unknown, collation)?;
        let spec = spec.as_doc();
        let pattern = match spec.get("key") {
            Value::Doc(key) => key,
            _ => bail!(
                Code::FAILED_TO_PARSE,
                "The 'key' field is a required property of an index specification"
            ),
        };
        let Value::String(name) = spec.get("name") else {
            bail!(
                Code::FAILED_TO_PARSE,
                "The 'name' field is a required property of an index specification"
            );
        };
        let given = pattern;
        let original_key = spec.get(ORIGINAL).as_doc().and_then(|doc| doc.get("key").as_doc());
        let completed = complete(spec, pattern)?;
        let pattern = completed.as_ref().map_or(pattern, |completed| completed.key.as_doc());
        let key = parse_pattern(pattern)?;
        check_name(name, pattern)?;
        check_version(spec)?;
        if is_id_pattern(&key) {
            return parse_id(spec, pattern, collation, default);
        }
        let kind = kind_of(spec, &key, pattern)?;
        let details = (kind.facts().parse)(spec, &key)?;
        let (details, doc) = match &completed {
            Some(completed) => {
                (details.or_else(|| Some(completed.details.clone())), completed.doc.clone())
            }
            None => (details, listed(spec, kind)),
        };
        let parsed = IndexSpec {
            name: name.into(),
            kind,
            details,
            key,
            key_pattern: pattern.to_buf(),
            unique: spec.get("unique").is_truthy(),
            sparse: spec.get("sparse").is_truthy(),
            hidden: spec.get("hidden").is_truthy(),
            prepare_unique: spec.get("prepareUnique").is_truthy(),
            partial: spec.get("partialFilterExpression").as_doc().map(|doc| doc.to_buf()),
            expire_after_seconds: expire_after(spec, original_key.unwrap_or(given))?,
            original: spec.get(ORIGINAL).as_doc().map(|doc| doc.to_buf()),
            collation,
            doc,
        };
        parsed.check_combination(spec)?;
        Ok(parsed)
    }

    fn check_combination(&self, spec: Doc<'_>) -> Result<()> {
        if self.partial.is_some() && self.sparse {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "cannot mix \"partialFilterExpression\" and \"sparse\" options"
            );
        }
        let facts = self.kind.facts();
        if let (Some(collation), false) = (self.collation, facts.collates) {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "Index type '{}' does not support collation: {}",
                facts.name,
                doc_text(collation.as_doc())
            );
        }
        if let (true, Some((code, text))) = (self.unique, facts.not_unique) {
            bail!(code, "{text}");
        }
        if let Value::Doc(engine) = spec.get("storageEngine") {
            if engine.is_empty() {
                bail!(
                    Code::CANNOT_CREATE_INDEX,
                    "Empty \"storageEngine\" options are invalid. Please remove the field or \
                     include valid options."
                );
            }
            crate::config_string::check_engine(spec.get("storageEngine"))?;
        }
        Ok(())
    }

    /// Returns true if this is the index on `_id`.
    pub fn is_id(&self) -> bool {
        is_id_pattern(&self.key)
    }

    /// True if key pattern, partial filter, uniqueness and sparseness are equal: only one such index may exist.
    pub(crate) fn same_signature(&self, other: &IndexSpec) -> bool {
        // Includes the kind if the pattern names one: 2d differs from 2dsphere.
        let fields = |spec: &IndexSpec| -> Vec<(String, Option<String>)> {
            let pattern = spec.key_pattern.as_doc();
            let kind = |value: Value<'_>| value.as_str().map(str::to_owned);
            pattern.iter().map(|e| (e.name().to_owned(), kind(e.value()))).collect()
        };
        fields(self) == fields(other)
            && self.key == other.key
            && self.unique == other.unique
            && self.sparse == other.sparse
            && same_filter(self.partial.as_ref(), other.partial.as_ref())
            && same_filter(self.original_filter().as_ref(), other.original_filter().as_ref())
            && self.collation == other.collation
            && self.same_details(other, <dyn Details>::same_signature)
    }

    /// The partial filter that the client of a time series asked for.
    fn original_filter(&self) -> Option<DocBuf> {
        let filter = self.original.as_ref()?.get("partialFilterExpression").as_doc()?;
        Some(filter.to_buf())
    }

    /// Name and direction of each value in a key; in a wildcard index the path precedes its value.
    pub fn key_fields(&self) -> impl Iterator<Item = (&str, bool)> {
        let at = self.path_field().filter(|field| field.path.is_none()).map(|field| field.at);
        self.key.iter().enumerate().flat_map(move |(field, part)| {
            let path = (at == Some(field)).then_some((PATH_FIELD, part.descending));
            path.into_iter().chain([(&*part.path, part.descending)])
        })
    }

    /// True if all options besides the name and the signature are equal.
    pub(crate) fn same_options(&self, other: &IndexSpec) -> bool {
        self.expire_after_seconds == other.expire_after_seconds
            && self.same_details(other, <dyn Details>::same_options)
    }

    fn same_details(
        &self,
        other: &IndexSpec,
        same: fn(&dyn Details, &dyn Details) -> bool,
    ) -> bool {
        match (&self.details, &other.details) {
            (Some(own), Some(other)) => same(&**own, &**other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// What the kind parsed from its options, if it has this type.
    pub(super) fn details<T: Details>(&self) -> Option<&T> {
        self.details.as_deref().and_then(|details| details.get())
    }

    pub(super) fn set_details(&mut self, details: Arc<dyn Details>) {
        self.details = Some(details);
    }

    /// For keys that contain a path before its value: their position.
    pub fn path_field(&self) -> Option<PathField<'_>> {
        self.details.as_deref().and_then(Details::path_field)
    }

    /// Returns true if `differs` holds for a path of the key pattern, or another one on which keys depend.
    pub(crate) fn depends_on(&self, differs: &dyn Fn(&str) -> bool) -> bool {
        self.kind.facts().by_path
            || self.details.as_deref().is_some_and(|details| details.depends_on(differs))
            || self.key.iter().any(|part| differs(&part.path))
            || self.key.iter().any(|part| kinds::column_of(part).is_some_and(differs))
    }

    /// The specification with a changed option; `None` removes it.
    pub(crate) fn with_option(&self, name: &str, value: Option<Value<'_>>) -> IndexSpec {
        let mut changed = self.clone();
        changed.doc = DocBuf::build(|w| {
            let kept = self.doc.as_doc().iter().filter(|e| e.name() != name);
            kept.for_each(|e| w.put(e.name(), e.value()));
            if let Some(value) = value {
                w.put(name, value);
            }
        });
        let value = value.unwrap_or(Value::Missing);
        match name {
            "hidden" => changed.hidden = value.is_truthy(),
            "unique" => changed.unique = value.is_truthy(),
            "prepareUnique" => changed.prepare_unique = value.is_truthy(),
            "expireAfterSeconds" => changed.expire_after_seconds = number::truncate_to_i64(value),
            _ => {}
        }
        changed
    }
}

/// Returns true if partial filters are equal except for the order of their conditions.
fn same_filter(a: Option<&DocBuf>, b: Option<&DocBuf>) -> bool {
    /// Conditions are unordered; the fields of a compared value are ordered.
    fn same(a: Doc<'_>, b: Doc<'_>) -> bool {
        let is_operator = |doc: Doc<'_>| doc.first().is_some_and(|e| e.name().starts_with('$'));
        a.iter().count() == b.iter().count()
            && a.iter().all(|own| match (own.value(), b.get(own.name())) {
                (Value::Doc(a), Value::Doc(b)) if is_operator(a) && is_operator(b) => same(a, b),
                (a, b) => compare::equal(a, b),
            })
    }
    match (a, b) {
        (Some(a), Some(b)) => same(a.as_doc(), b.as_doc()),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn is_id_pattern(key: &[KeyPart]) -> bool {
    matches!(key, [part] if &*part.path == "_id" && !part.is_hashed() && !part.descending)
}

/// Checks every option's name and type. Returns `{v, key, name, options...}`.
fn check_options(
    spec: Doc<'_>,
    namespace: &Namespace,
    ignore_unknown: bool,
    collation: Option<&'static Collation>,
) -> Result<DocBuf> {
    for element in spec {
        let (name, value) = (element.name(), element.value());
        match name {
            "key" => expect_type(name, value, Shape::Document)?,
            "name" => expect_type(name, value, Shape::Text)?,
            "v" => check_version_number(value)?,
            "ns" => check_ns(value, namespace)?,
            _ => match option(name).filter(|_| name != ORIGINAL || namespace.is_buckets()) {
                Some(shape) => expect_type(name, value, shape)?,
                None if ignore_unknown => {}
                None => bail!(
                    Code::INVALID_INDEX_SPECIFICATION_OPTION,
                    "The field '{name}' is not valid for an index specification. \
                     Specification: {}",
                    doc_text(spec)
                ),
            },
        }
    }
    Ok(DocBuf::build(|w| {
        let version = number::truncate_to_i64(spec.get("v")).unwrap_or(2);
        w.put("v", i32::try_from(version).unwrap_or(-1));
        w.put("key", spec.get("key"));
        w.put("name", spec.get("name"));
        for element in spec {
            let known = option(element.name());
            let Some(shape) =
                known.filter(|_| element.name() != ORIGINAL || namespace.is_buckets())
            else {
                continue;
            };
            match shape {
                Shape::Ignored => {}
                // Written in full, and last; the simple collation is omitted.
                _ if element.name() == "collation" => {}
                Shape::Flag if !element.value().is_truthy() => {
                    // MongoDB stores false values of these two options only.
                    if matches!(element.name(), "background" | "sparse") {
                        w.put(element.name(), false);
                    }
                }
                Shape::Flag => w.put(element.name(), true),
                _ => w.put(element.name(), element.value()),
            }
        }
        collation::put(collation, "collation", w);
    }))
}

/// The required type of an option; none if it is unknown.
fn option(name: &str) -> Option<Shape> {
    OPTIONS.iter().chain(kind::options()).find(|row| row.0 == name).map(|row| row.1)
}

/// The specification and its key pattern, completed by the kind that the pattern names, if that kind does so.
fn complete(spec: Doc<'_>, pattern: Doc<'_>) -> Result<Option<Completed>> {
    let names = |name| pattern.iter().any(|field| field.value() == Value::String(name));
    let mut rows = IndexKind::all().map(IndexKind::facts).filter(|row| names(row.name));
    rows.find_map(|row| row.complete).map(|complete| complete(spec, pattern)).transpose()
}

fn check_ns(value: Value<'_>, namespace: &Namespace) -> Result<()> {
    match value {
        Value::String(ns) if ns.is_empty() || ns == namespace.as_str() => Ok(()),
        Value::String(ns) => bail!(
            Code::BAD_VALUE,
            "The value of the field 'ns' ({ns}) doesn't match the namespace '{namespace}'"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "The field 'ns' must be a string, but got {}",
            other.kind().name()
        ),
    }
}

/// Checks the version of the format: it must be a 32-bit integer (2, 14). The valid versions are checked later.
fn check_version_number(value: Value<'_>) -> Result<()> {
    expect_type("v", value, Shape::Number)?;
    if number::as_i64_exact(value).and_then(|version| i32::try_from(version).ok()).is_none() {
        bail!(
            Code::BAD_VALUE,
            "Index version must be representable as a 32-bit integer, but got {}",
            value_text(value)
        );
    }
    Ok(())
}

fn expect_type(name: &str, value: Value<'_>, shape: Shape) -> Result<()> {
    let (fits, wanted) = match shape {
        Shape::Flag => (value.is_number() || value.kind() == Type::Bool, "a bool"),
        Shape::Number => (value.is_number(), "a number"),
        Shape::Document => (value.kind() == Type::Object, "an object"),
        Shape::Text => (value.kind() == Type::String, "a string"),
        Shape::DocumentOrText => {
            (matches!(value.kind(), Type::Object | Type::String), "an object or a string")
        }
        Shape::Ignored => (true, ""),
    };
    if fits {
        return Ok(());
    }
    bail!(
        Code::TYPE_MISMATCH,
        "The field '{name}' must be {wanted}, but got {}",
        value.kind().name()
    )
}

fn parse_pattern(pattern: Doc<'_>) -> Result<Box<[KeyPart]>> {
    if pattern.is_empty() {
        bail!(Code::CANNOT_CREATE_INDEX, "Index keys cannot be empty.");
    }
    if pattern.count() > FIELD_COUNT_MAX {
        bail!(Code::Location(13103), "too many compound keys");
    }
    let mut parts: Vec<KeyPart> = Vec::new();
    for element in pattern {
        let path = element.name();
        let (descending, content) = direction(element.value(), pattern)?;
        check_path(path)?;
        let mut kinds = IndexKind::all().map(IndexKind::facts);
        let reserved = kinds.find(|row| row.reserved_path == Some(path));
        if reserved.is_some_and(|row| element.value() != Value::String(row.name)) {
            bail!(Code::CANNOT_CREATE_INDEX, "Index key contains an illegal field name: '{path}'");
        }
        if parts.iter().any(|part| &*part.path == path) {
            bail!(
                Code::BAD_VALUE,
                "The field '{path}' appears multiple times in the index key pattern {}",
                doc_text(pattern)
            );
        }
        parts.push(KeyPart { path: path.into(), descending, content });
    }
    for kind in IndexKind::all() {
        (kind.facts().check_pattern)(&parts, pattern)?;
    }
    Ok(parts.into())
}

/// Parses the value of a key pattern's field: descending, and what keys contain.
fn direction(value: Value<'_>, pattern: Doc<'_>) -> Result<(bool, Content)> {
    match value {
        Value::String(plugin) => match IndexKind::of_value(plugin).map(IndexKind::facts) {
            Some(row) if row.named_by == NamedBy::Value => Ok((false, row.content)),
            Some(_) => bail!(
                Code::CANNOT_CREATE_INDEX,
                "Index type '{plugin}' is not supported yet: {}",
                doc_text(pattern)
            ),
            None => bail!(Code::CANNOT_CREATE_INDEX, "Unknown index plugin '{plugin}'"),
        },
        value if value.is_number() => match number::as_f64(value) {
            Some(n) if n.is_nan() => {
                bail!(Code::CANNOT_CREATE_INDEX, "Values in the index key pattern cannot be NaN.")
            }
            Some(n) if n != 0.0 => Ok((n < 0.0, Content::Values)),
            _ => bail!(Code::CANNOT_CREATE_INDEX, "Values in the index key pattern cannot be 0."),
        },
        other => bail!(
            Code::CANNOT_CREATE_INDEX,
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, \
             and strings are allowed.",
            other.kind().name()
        ),
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        bail!(Code::CANNOT_CREATE_INDEX, "Index keys cannot be an empty field.");
    }
    let root = path.strip_suffix(".$**").filter(|root| !root.is_empty());
    if path == "$**" {
        return Ok(());
    }
    let path = root.unwrap_or(path);
    for (at, component) in path.split('.').enumerate() {
        if component.is_empty() {
            bail!(Code::CANNOT_CREATE_INDEX, "Index keys cannot contain an empty field.");
        }
        // "a.$ref" and similar names are part of a DBRef.
        let reference = at > 0 && matches!(component, "$ref" | "$id" | "$db");
        if component.starts_with('$') && !reference {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "Index key contains an illegal field name: field name starts with '$'."
            );
        }
    }
    Ok(())
}

/// The kind of a specification: the one that claims it, or that its pattern names, or else the ordinary one.
fn kind_of(spec: Doc<'_>, key: &[KeyPart], pattern: Doc<'_>) -> Result<IndexKind> {
    for kind in IndexKind::all() {
        if (kind.facts().claims)(spec, key)? {
            return Ok(kind);
        }
    }
    let plugins = || pattern.iter().filter_map(|field| field.value().as_str());
    let Some(first) = plugins().next() else { return Ok(IndexKind::ordinary()) };
    if let Some(other) = plugins().find(|other| *other != first) {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "Can't have more than one index plugin in the key pattern: {first}, {other}: {}",
            doc_text(pattern)
        );
    }
    // Other names were refused with the pattern.
    Ok(IndexKind::of_value(first).unwrap_or_else(IndexKind::ordinary))
}

/// The row of `listIndexes`, with the option that the kind always lists.
fn listed(spec: Doc<'_>, kind: IndexKind) -> DocBuf {
    // NaN means never, and is listed as the greatest time.
    let never = |value| number::as_f64(value).is_some_and(f64::is_nan);
    if never(spec.get("expireAfterSeconds")) {
        return DocBuf::build(|out| {
            for element in spec {
                match element.name() {
                    "expireAfterSeconds" => out.put("expireAfterSeconds", i32::MAX),
                    name => out.put(name, element.value()),
                }
            }
        });
    }
    match kind.facts().listed {
        Some((option, default)) if spec.get(option).is_missing() => DocBuf::build(|out| {
            out.extend(spec);
            out.put(option, default);
        }),
        _ => spec.to_buf(),
    }
}

fn check_name(name: &str, pattern: Doc<'_>) -> Result<()> {
    if name.is_empty() {
        bail!(Code::CANNOT_CREATE_INDEX, "index name cannot be empty");
    }
    if name.contains('\0') {
        bail!(Code::CANNOT_CREATE_INDEX, "index name cannot contain NUL bytes");
    }
    if name == "*" {
        bail!(Code::BAD_VALUE, "The index name '*' is not valid.");
    }
    let id = pattern.count() == 1
        && number::as_f64(pattern.get("_id")).is_some_and(|direction| direction == 1.0);
    if name == "_id_" && !id {
        bail!(
            Code::BAD_VALUE,
            "The index name '_id_' is reserved for the _id index, which must have key pattern \
             {{_id: 1}}, found key: {}",
            doc_text(pattern)
        );
    }
    if pattern.count() == 1 && pattern.get("_id").is_number() && !id {
        bail!(
            Code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
            doc_text(pattern)
        );
    }
    Ok(())
}

fn check_version(spec: Doc<'_>) -> Result<()> {
    match number::as_f64(spec.get("v")) {
        Some(1.0 | 2.0) => Ok(()),
        _ => bail!(
            Code::CANNOT_CREATE_INDEX,
            "Invalid index specification {}; cannot create an index with v={}",
            doc_text(spec),
            spec.get("v")
        ),
    }
}

/// Parses `{_id: 1}`, which is always the same index, whatever its name; few options are allowed.
fn parse_id(
    spec: Doc<'_>,
    pattern: Doc<'_>,
    collation: Option<&'static Collation>,
    default: Option<&'static Collation>,
) -> Result<IndexSpec> {
    for element in spec {
        let allowed = matches!(element.name(), "v" | "key" | "name" | "collation" | "background");
        if element.name() == "hidden" {
            bail!(Code::BAD_VALUE, "can't hide _id index");
        }
        if !allowed {
            bail!(
                Code::INVALID_INDEX_SPECIFICATION_OPTION,
                "The field '{}' is not valid for an _id index specification. Specification: {}",
                element.name(),
                doc_text(spec)
            );
        }
    }
    let _ = pattern;
    if collation != default {
        let text = |collation: Option<&Collation>| match collation {
            Some(collation) => doc_text(collation.as_doc()),
            None => "{ locale: \"simple\" }".to_owned(),
        };
        bail!(
            Code::BAD_VALUE,
            "The _id index must have the same collation as the collection. Index collation: {}, \
             collection collation: {}",
            text(collation),
            text(default)
        );
    }
    let version = if number::as_f64(spec.get("v")) == Some(1.0) { 1 } else { 2 };
    Ok(IndexSpec::id_of_version(version, collation))
}

fn expire_after(spec: Doc<'_>, pattern: Doc<'_>) -> Result<Option<i64>> {
    let value = spec.get("expireAfterSeconds");
    let Some(seconds) = number::as_f64(value) else { return Ok(None) };
    // NaN means never, as in servers since 5.0.
    let seconds = if seconds.is_nan() { EXPIRE_SECONDS_MAX as f64 } else { seconds };
    if pattern.count() != 1 {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "TTL indexes are single-field indexes, compound indexes do not support TTL. Index \
             spec: {}",
            doc_text(spec)
        );
    }
    if seconds < 0.0 {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "TTL index 'expireAfterSeconds' option cannot be less than 0. Index spec: {}",
            doc_text(spec)
        );
    }
    if seconds > EXPIRE_SECONDS_MAX as f64 {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a \
             different value. Index spec: {}",
            doc_text(spec)
        );
    }
    Ok(Some(seconds as i64))
}
