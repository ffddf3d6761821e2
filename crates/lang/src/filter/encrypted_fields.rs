//! The validator that the option `encryptedFields` of a collection implies (Queryable Encryption).
//!
//! The option lists the paths of encrypted fields. A client sends their values encrypted: a value at such a path must
//! be binary data of subtype 6, of a kind that may be stored, and of the listed type. Fields may be missing. A value
//! above such a field may be anything but an array, because the paths do not traverse arrays. The header before the
//! ciphertext is described in `schema_encrypt`.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use nagi_bson::{Array, Doc, DocBuf, DocWriter, Type, Value};
use nagi_error::{Code, Error, Result, bail, err};

use super::schema_encrypt::{ENCRYPTED, HEAD_BYTES, UUID};
use super::{TypeSet, encrypted_queries};
use crate::apart::ApartPaths;
use crate::encrypted::SAFE_CONTENT;

/// The allowed first bytes of a stored value: equality, unindexed and range of version 1, the same of version 2, and
/// text.
const STORED_KINDS: [u8; 7] = [6, 7, 9, 14, 15, 16, 17];

/// The encrypted fields of a collection as a tree of names.
#[derive(Debug, Clone, Default)]
pub struct EncryptedFields {
    root: Branch,
    /// `escCollection`, `ecocCollection`: the names of the state collections, if they are given.
    esc: Option<Box<str>>,
    ecoc: Option<Box<str>>,
}

/// A state collection.
#[derive(Debug, Clone, Copy)]
enum StateKind {
    Esc,
    Ecoc,
}

impl StateKind {
    /// Its name for the collection `name`; an error if another one was given.
    fn checked(self, name: &str, given: Option<&str>) -> Result<String> {
        let (code, which, ending) = match self {
            StateKind::Esc => (7_406_900, "State", "esc"),
            StateKind::Ecoc => (7_406_902, "Compaction", "ecoc"),
        };
        let own = format!("enxcol_.{name}.{ending}");
        if given.is_some_and(|given| given != own) {
            bail!(
                Code::Location(code),
                "Encrypted {which} Collection name should follow enxcol_.<collection>.{ending} naming \
                 pattern"
            );
        }
        Ok(own)
    }
}

/// The encrypted fields below a path.
#[derive(Debug, Clone, Copy)]
pub struct EncryptedBelow<'f>(&'f Branch);

/// What a name leads to.
#[derive(Debug, Clone, Copy)]
pub enum EncryptedStep<'f> {
    /// An encrypted field.
    Field(&'f EncryptedField),
    /// A document that contains encrypted fields.
    Below(EncryptedBelow<'f>),
    /// No encrypted field.
    Other,
}

impl<'f> EncryptedBelow<'f> {
    /// What the field `name` of a document is.
    pub fn step(self, name: &str) -> EncryptedStep<'f> {
        match self.0.iter().find(|(own, _)| **own == *name) {
            Some((_, Step::Field(field))) => EncryptedStep::Field(field),
            Some((_, Step::Below(below))) => EncryptedStep::Below(EncryptedBelow(below)),
            None => EncryptedStep::Other,
        }
    }
}

impl EncryptedBelow<'_> {
    /// Returns true if there is an encrypted field with this path.
    pub fn has_field(self, path: &str) -> bool {
        let (name, rest) =
            path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        match (self.step(name), rest) {
            (EncryptedStep::Field(_), None) => true,
            (EncryptedStep::Below(below), Some(rest)) => below.has_field(rest),
            _ => false,
        }
    }
}

type Branch = Vec<(Box<str>, Step)>;

/// What the option tells of an encrypted field.
#[derive(Debug, Clone)]
pub struct EncryptedField {
    /// None: values of any type.
    types: Option<TypeSet>,
    /// `keyId`
    key: Box<[u8]>,
    /// It can be searched.
    indexed: bool,
    /// The element of `queries` for ranges.
    range: Option<DocBuf>,
}

impl EncryptedField {
    /// The parameters of its range index, if it has one.
    pub fn range(&self) -> Option<Doc<'_>> {
        self.range.as_ref().map(|range| range.as_doc())
    }

    /// Returns true if the stored value was encrypted for another field, and by one of the two can be searched: its
    /// tags, if it has any, are not those of this field.
    pub fn is_foreign(&self, stored: &[u8]) -> bool {
        const UNINDEXED: [u8; 2] = [6, 16];
        let indexed = stored.first().is_some_and(|kind| !UNINDEXED.contains(kind));
        let key = stored.get(1..HEAD_BYTES - 1).unwrap_or(&[]);
        (indexed || self.indexed) && *key != *self.key
    }
}

#[derive(Debug, Clone)]
enum Step {
    Field(EncryptedField),
    /// A document that contains encrypted fields.
    Below(Branch),
}

/// The reason why a value is not valid.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Plain,
    WrongType,
    Array,
}

impl EncryptedFields {
    /// Checks the option of `create` for the collection `name`.
    ///
    /// # Errors
    /// 40414 for a missing field, 14 for a wrong type, 2 for an unknown BSON type and for paths that cannot be
    /// encrypted, 6316402 and 6316403 for paths with an empty component, 6338401 to 6338403 for duplicate keys and for
    /// duplicate or conflicting paths, those of its queries (`encrypted_queries`), 7406900 and 7406902 for state
    /// collections with other names than the default.
    pub fn check(config: Doc<'_>, name: &str) -> Result<()> {
        for (field, kind) in
            [("escCollection", StateKind::Esc), ("ecocCollection", StateKind::Ecoc)]
        {
            match config.get(field) {
                Value::Missing => {}
                Value::String(given) => drop(kind.checked(name, Some(given))?),
                other => {
                    return Err(wrong_type(&format!("encryptedFields.{field}"), other, "string"));
                }
            }
        }
        let fields = match config.get("fields") {
            Value::Array(fields) => fields,
            Value::Missing => return Err(missing("encryptedFields.fields")),
            other => return Err(wrong_type("encryptedFields.fields", other, "array")),
        };
        let mut keys = HashSet::<&[u8], RandomState>::default();
        let (mut whole, mut apart) =
            (HashSet::<&str, RandomState>::default(), ApartPaths::default());
        for field in fields.iter() {
            let Value::Doc(field) = field else {
                return Err(wrong_type("encryptedFields.fields", field, "object"));
            };
            let (path, key) = (path_of(field)?, key_of(field)?);
            check_type(field.get("bsonType"))?;
            encrypted_queries::check(field)?;
            if !keys.insert(key) {
                bail!(Code::Location(6_338_401), "Duplicate key ids are not allowed");
            }
            if !whole.insert(path) {
                bail!(Code::Location(6_338_402), "Duplicate paths are not allowed");
            }
            if !apart.insert(path) {
                bail!(
                    Code::Location(6_338_403),
                    "Conflicting index paths found as one is a prefix of another"
                );
            }
        }
        Ok(())
    }

    /// Parses the stored option. It skips what [`EncryptedFields::check`] would reject, because a data directory must
    /// open.
    pub fn read(config: Doc<'_>) -> EncryptedFields {
        let name = |field: &str| config.get(field).as_str().map(Box::from);
        let (esc, ecoc) = (name("escCollection"), name("ecocCollection"));
        let mut tree = EncryptedFields { esc, ecoc, ..EncryptedFields::default() };
        for field in config.get("fields").as_array().unwrap_or(Array::EMPTY).iter() {
            let Value::Doc(field) = field else { continue };
            let Some(path) = field.get("path").as_str().filter(|path| !path.is_empty()) else {
                continue;
            };
            let key = match field.get("keyId") {
                Value::Binary(data) => data.bytes.into(),
                _ => Box::default(),
            };
            let queries = field.get("queries");
            let indexed = !matches!(queries, Value::Missing);
            let types = field.get("bsonType").as_str().and_then(TypeSet::by_name);
            let field = EncryptedField { types, key, indexed, range: range_of(queries) };
            insert(&mut tree.root, path, field);
        }
        tree
    }

    /// The encrypted fields of a whole document.
    pub fn top(&self) -> EncryptedBelow<'_> {
        EncryptedBelow(&self.root)
    }

    /// The name of the state collection ESC of the collection `name`.
    ///
    /// # Errors
    /// 7406900 if the option has another name: it could be that of any collection of other users.
    pub fn esc(&self, name: &str) -> Result<String> {
        StateKind::Esc.checked(name, self.esc.as_deref())
    }

    /// The name of the state collection ECOC of the collection `name`.
    ///
    /// # Errors
    /// 7406902 if the option has another name.
    pub fn ecoc(&self, name: &str) -> Result<String> {
        StateKind::Ecoc.checked(name, self.ecoc.as_deref())
    }

    /// The collection to which a state collection of this name belongs, if it is such a name.
    pub fn owner_of_state(name: &str) -> Option<&str> {
        let rest = name.strip_prefix("enxcol_.")?;
        [".esc", ".ecoc", ".ecoc.compact"].iter().find_map(|ending| rest.strip_suffix(ending))
    }

    /// The encrypted field that an index on `path` would contain: one with this path, or one above or below it.
    pub fn covered_by_index(&self, path: &str) -> Option<String> {
        let (mut below, mut rest, mut found) = (&self.root, Some(path), String::new());
        loop {
            // Below the path of the index any encrypted field is contained.
            let (own, step) = match rest.map(|rest| rest.split_once('.').unwrap_or((rest, ""))) {
                Some((name, deeper)) => {
                    rest = Some(deeper).filter(|deeper| !deeper.is_empty());
                    below.iter().find(|(own, _)| **own == *name)?
                }
                None => below.first()?,
            };
            found.push_str(own);
            match step {
                Step::Field(_) => return Some(found),
                Step::Below(inner) => below = inner,
            }
            found.push('.');
        }
    }

    /// Returns true if every encrypted field of the document is encrypted. It does not allocate.
    pub fn hold(&self, doc: Doc<'_>) -> bool {
        holds(&self.root, doc)
    }

    /// Writes which fields are not encrypted, for `errInfo`. It does not output values, because they are secret.
    pub fn explain(&self, doc: Doc<'_>, out: &mut DocWriter<'_>) {
        out.put("operatorName", "implicitFLESchema");
        explain_branch(&self.root, doc, "schemaRulesNotSatisfied", out);
    }
}

/// The element of `queries`, one or a list, that describes a range index.
fn range_of(queries: Value<'_>) -> Option<DocBuf> {
    let is_range = |query: &Doc<'_>| query.get("queryType").as_str() == Some("range");
    match queries {
        Value::Doc(query) => Some(query).filter(is_range),
        Value::Array(list) => list.iter().filter_map(|query| query.as_doc()).find(is_range),
        _ => None,
    }
    .map(|query| query.to_buf())
}

fn insert(branch: &mut Branch, path: &str, field: EncryptedField) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let at = branch.iter().position(|(own, _)| **own == *name);
    match (at, rest) {
        (None, None) => branch.push((name.into(), Step::Field(field))),
        (None, Some(rest)) => {
            let mut below = Branch::new();
            insert(&mut below, rest, field);
            branch.push((name.into(), Step::Below(below)));
        }
        (Some(at), Some(rest)) => {
            if let Step::Below(below) = &mut branch[at].1 {
                insert(below, rest, field);
            }
        }
        (Some(_), None) => {}
    }
}

fn holds(branch: &Branch, doc: Doc<'_>) -> bool {
    branch.iter().all(|(name, step)| match (step, doc.get(name)) {
        (_, Value::Missing) => true,
        (Step::Field(field), value) => fault(field.types, value).is_none(),
        (Step::Below(below), Value::Doc(doc)) => holds(below, doc),
        (Step::Below(_), value) => !matches!(value, Value::Array(_)),
    })
}

/// The fault of the value of an encrypted field, if it has one.
fn fault(types: Option<TypeSet>, value: Value<'_>) -> Option<Fault> {
    let Value::Binary(data) = value else { return Some(Fault::Plain) };
    if data.subtype != ENCRYPTED {
        return Some(Fault::Plain);
    }
    let stored = data.bytes.len() >= HEAD_BYTES && STORED_KINDS.contains(&data.bytes[0]);
    let kind = data.bytes.get(HEAD_BYTES - 1).and_then(|byte| Type::from_byte(*byte));
    let fits = types.is_none_or(|types| kind.is_some_and(|kind| types.contains(kind)));
    (!stored || !fits).then_some(Fault::WrongType)
}

fn explain_branch(branch: &Branch, doc: Doc<'_>, list: &str, out: &mut DocWriter<'_>) {
    out.array(list, |list| {
        list.doc(|rule| {
            rule.put("operatorName", "properties");
            rule.array("propertiesNotSatisfied", |list| {
                for (name, step) in branch {
                    let value = doc.get(name);
                    let fault = match (step, value) {
                        (_, Value::Missing) => None,
                        (Step::Field(field), value) => fault(field.types, value),
                        (Step::Below(_), Value::Array(_)) => Some(Fault::Array),
                        (Step::Below(below), Value::Doc(inner)) if !holds(below, inner) => {
                            list.doc(|property| {
                                property.put("propertyName", &**name);
                                explain_branch(below, inner, "details", property);
                            });
                            None
                        }
                        (Step::Below(_), _) => None,
                    };
                    let Some(fault) = fault else { continue };
                    list.doc(|property| {
                        property.put("propertyName", &**name);
                        property.array("details", |list| list.doc(|out| fault.explain(out)));
                    });
                }
            });
        });
    });
}

impl Fault {
    fn explain(self, out: &mut DocWriter<'_>) {
        let (operator, reason) = match self {
            Fault::Plain => ("fle2Encrypt", "value was not encrypted"),
            Fault::WrongType => {
                ("fle2Encrypt", "Queryable Encryption encrypted value has wrong type")
            }
            Fault::Array => ("type", "type did match"),
        };
        out.put("operatorName", operator);
        out.put("reason", reason);
        if matches!(self, Fault::Array) {
            out.put("consideredType", "array");
        }
    }
}

fn missing(field: &str) -> Error {
    err!(Code::IDL_FAILED_TO_PARSE, "BSON field 'create.{field}' is missing but a required field")
}

pub(super) fn wrong_type(field: &str, found: Value<'_>, expected: &str) -> Error {
    err!(
        Code::TYPE_MISMATCH,
        "BSON field 'create.{field}' is the wrong type '{}', expected type '{expected}'",
        found.kind().name()
    )
}

fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

fn path_of(field: Doc<'_>) -> Result<&str> {
    const NAME: &str = "encryptedFields.fields.path";
    match field.get("path") {
        Value::String("") => {
            bail!(Code::Location(6_316_402), "Encrypted path cannot be an empty string")
        }
        Value::String(path) if path.split('.').any(str::is_empty) => bail!(
            Code::Location(6_316_403),
            "Encrypted path '{path}' must not have an empty part between dots"
        ),
        Value::String(path) if matches!(first_name(path), "_id" | SAFE_CONTENT) => {
            bail!(Code::BAD_VALUE, "Cannot encrypt the field '{path}'")
        }
        Value::String(path) => Ok(path),
        Value::Missing => Err(missing(NAME)),
        other => Err(wrong_type(NAME, other, "string")),
    }
}

fn key_of(field: Doc<'_>) -> Result<&[u8]> {
    const NAME: &str = "encryptedFields.fields.keyId";
    match field.get("keyId") {
        Value::Binary(data) if data.subtype == UUID => Ok(data.bytes),
        Value::Missing => Err(missing(NAME)),
        other => Err(wrong_type(NAME, other, "binData")),
    }
}

fn check_type(given: Value<'_>) -> Result<()> {
    match given {
        Value::Missing => Ok(()),
        Value::String(name) if TypeSet::by_name(name).is_some() => Ok(()),
        Value::String(name) => bail!(Code::BAD_VALUE, "Unknown type name: {name}"),
        other => Err(wrong_type("encryptedFields.fields.bsonType", other, "string")),
    }
}
