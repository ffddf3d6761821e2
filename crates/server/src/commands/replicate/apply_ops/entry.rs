//! An entry of an oplog, and the checks that all entries of a request pass before the first one is applied.

use nagi_store::Uuid;

use super::fields;
use crate::args::{self, Truthy};
use crate::core::command::prelude::*;
use crate::printable::put_hidden;

/// How deep `applyOps` may be nested.
const DEPTH_MAX: usize = 10;

/// The commands that an entry may contain.
const COMMANDS: &[&str] = &[
    "abortIndexBuild",
    "abortTransaction",
    "applyOps",
    "collMod",
    "commitIndexBuild",
    "commitTransaction",
    "convertToCapped",
    "create",
    "createIndexes",
    "dbCheck",
    "deleteIndexes",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "emptycapped",
    "importCollection",
    "renameCollection",
    "startIndexBuild",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Update,
    Delete,
    Command,
}

/// The fields of an entry that matter here. A no-op is not one.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) kind: Kind,
    pub(super) ns: &'a str,
    /// The collection, or the one to be created.
    pub(super) uuid: Option<Uuid>,
    pub(super) object: Doc<'a>,
    /// Identifies the document of an update.
    pub(super) target: Doc<'a>,
    /// An update inserts a missing document.
    pub(super) upsert: bool,
    /// The entry was read from a log. A later entry of that log then explains why its document is gone.
    pub(super) is_logged: bool,
    /// The whole entry.
    doc: Doc<'a>,
}

impl<'a> Entry<'a> {
    /// Parses an entry that has passed [`check_head`].
    pub(super) fn parse(doc: Doc<'a>) -> Result<Entry<'a>> {
        let kind = match doc.get("op").as_str().unwrap_or("") {
            "i" => Kind::Insert,
            "u" => Kind::Update,
            "d" => Kind::Delete,
            "c" => Kind::Command,
            other => bail!(
                Code::BAD_VALUE,
                "Enumeration value '{other}' for field 'OplogEntryBase.op' is not a valid value."
            ),
        };
        fields::check(doc)?;
        let object = doc.get("o").as_doc().unwrap_or(Doc::EMPTY);
        let uuid = match doc.get("ui") {
            absent if absent.is_nullish() => None,
            given => Some(crate::commands::common::uuid("OplogEntryBase.ui", given)?),
        };
        Ok(Entry {
            kind,
            ns: doc.get("ns").as_str().unwrap_or(""),
            uuid,
            object,
            target: doc.get("o2").as_doc().unwrap_or(Doc::EMPTY),
            upsert: doc.get("b") == Value::Bool(true),
            is_logged: !doc.get("ts").is_missing(),
            doc,
        })
    }

    /// What names the entry in error texts, which may be logged: not the documents.
    pub(super) fn told(&self) -> String {
        told(self.doc)
    }

    pub(super) fn database(&self) -> &'a str {
        database_of(self.ns)
    }

    /// The name of a command.
    pub(super) fn command(&self) -> &'a str {
        self.object.first().map_or("", |first| first.name())
    }
}

/// The kind, namespace and time of an entry, and the `_id` of the document that it changes.
fn told(entry: Doc<'_>) -> String {
    let told = DocBuf::build(|w| {
        for field in entry {
            match (field.name(), field.value()) {
                ("op" | "ns" | "ui" | "ts", _) => w.put_element(field),
                (name @ ("o" | "o2"), Value::Doc(object)) => {
                    let id = object.element("_id");
                    if let Some(id) = id {
                        w.doc(name, |w| w.put_element(id));
                    }
                }
                _ => {}
            }
        }
    });
    told.as_doc().to_string()
}

/// A flag whose type MongoDB does not check.
pub(super) fn flag(doc: Doc<'_>, name: &'static str) -> Result<bool> {
    Ok(args::read::<Truthy>(doc, "applyOps", name)?.0)
}

/// The database of a namespace that may be invalid.
pub(super) fn database_of(ns: &str) -> &str {
    ns.split_once('.').map_or(ns, |(db, _)| db)
}

/// Returns the value if it has the type `expected` (4 if it is missing, 14 for another type).
fn typed<'a, T>(name: &str, value: Value<'a>, expected: &str, read: Option<T>) -> Result<T> {
    let code = if value.is_missing() { Code::NO_SUCH_KEY } else { Code::TYPE_MISMATCH };
    let found = if value.is_missing() { "missing" } else { value.kind().name() };
    let name = if value.is_missing() { "" } else { name };
    read.ok_or_else(|| err!(code, "Wrong type for '{name}'. Expected a {expected}, got a {found}."))
}

/// The entries of an `applyOps`, on the wire or nested.
pub(super) fn operations<'a>(command: Doc<'a>) -> Result<Vec<Doc<'a>>> {
    let given = command.get("applyOps");
    let list = typed("applyOps", given, "array", given.as_array())?;
    let entries = list.iter().enumerate();
    entries.map(|(at, entry)| typed(&at.to_string(), entry, "object", entry.as_doc())).collect()
}

/// The command of an entry with `op: "c"`, as its first field.
fn command_of<'a>(entry: Doc<'a>) -> Result<Option<&'a str>> {
    let op = entry.get("op");
    if typed("op", op, "string", op.as_str())? != "c" {
        return Ok(None);
    }
    let object = entry.get("o");
    let object = typed("o", object, "object", object.as_doc())?;
    Ok(Some(object.first().map_or("", |first| first.name())))
}

/// What the entries require beyond the privileges for each of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Demands {
    /// A request without entries, or one that creates or renames a collection among others.
    pub(super) superuser: bool,
    pub(super) use_uuid: bool,
    pub(super) force_uuid: bool,
}

/// Checks the types of all entries, and how they are nested.
pub(super) fn check_nesting(
    entries: &[Doc<'_>],
    depth: usize,
    demands: &mut Demands,
) -> Result<()> {
    demands.superuser |= entries.is_empty();
    for entry in entries {
        let command = command_of(*entry)?;
        let renames = matches!(command, Some("create" | "renameCollection"));
        demands.superuser |= renames && entries.len() > 1;
        let has_uuid = |doc: Doc<'_>| {
            doc.iter().any(|field| matches!(field.value(), Value::Binary(b) if b.subtype == 4))
        };
        let object = entry.get("o").as_doc().filter(|_| command.is_some());
        let uuids = has_uuid(*entry) || object.is_some_and(has_uuid);
        demands.use_uuid |= uuids;
        demands.force_uuid |= uuids && command == Some("create");
        match (command, object) {
            (Some("dropDatabase"), _) if depth > 0 => bail!(
                Code::Location(9_585_500),
                "dropDatabase is not allowed inside nested applyOps"
            ),
            (Some("applyOps"), Some(nested)) => {
                if depth >= DEPTH_MAX {
                    bail!(Code::FAILED_TO_PARSE, "Too many nested applyOps");
                }
                check_nesting(&operations(nested)?, depth + 1, demands)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks type and namespace of one entry (20).
pub(super) fn check_head(at: usize, entry: Doc<'_>) -> Result<()> {
    let op = entry.get("op").as_str().unwrap_or("");
    if op.is_empty() {
        bail!(Code::ILLEGAL_OPERATION, "\"op\" field value cannot be empty: {at}");
    }
    match entry.get("ns") {
        Value::Missing => {
            bail!(Code::ILLEGAL_OPERATION, "op does not contain required \"ns\" field: {at}")
        }
        Value::String(ns) if ns.contains('\0') => {
            bail!(Code::ILLEGAL_OPERATION, "namespaces cannot have embedded null characters")
        }
        Value::String("") if !op.starts_with('n') => bail!(
            Code::ILLEGAL_OPERATION,
            "\"ns\" field value cannot be empty when op type is not 'n': {at}"
        ),
        Value::String(_) => Ok(()),
        _ => bail!(Code::ILLEGAL_OPERATION, "\"ns\" field is not a string: {at}"),
    }
}

/// Refuses options of `applyOps` that are not supported, or that only entries of a log may have.
pub(super) fn check_options(command: Doc<'_>) -> Result<()> {
    if !command.get("preCondition").is_nullish() {
        bail!(
            Code::Location(6_711_600),
            "applyOps command no longer supports the 'preCondition' option"
        );
    }
    match command.get("alwaysUpsert") {
        Value::Bool(true) => bail!(
            Code::Location(6_711_601),
            "applyOps command no longer supports the 'alwaysUpsert' option"
        ),
        Value::Bool(false) | Value::Missing | Value::Null => {}
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'applyOps.alwaysUpsert' is the wrong type '{}', expected type 'bool'",
            other.kind().name()
        ),
    }
    if !command.get("prepare").is_nullish() {
        bail!(Code::BAD_VALUE, "applyOps command can't have 'prepare' field");
    }
    if !command.get("partialTxn").is_nullish() {
        bail!(Code::Location(31_056), "applyOps command can't have 'partialTxn' field.");
    }
    match command.get("count") {
        value if value.is_nullish() => Ok(()),
        value if value.is_number() => {
            bail!(Code::Location(31_240), "applyOps command can't have 'count' field.")
        }
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'applyOps.count' is the wrong type '{}', expected types '[long, int, decimal, \
             double]'",
            other.kind().name()
        ),
    }
}

/// Refuses commands that no log contains, and `dropDatabase` among other entries.
pub(super) fn check_commands(entries: &[Doc<'_>]) -> Result<()> {
    for entry in entries {
        let Some(command) = command_of(*entry)? else { continue };
        if !COMMANDS.contains(&command) {
            // Errors are logged, and it may be a command with a password.
            let shown = DocBuf::build(|out| put_hidden("o", entry.get("o"), out));
            bail!(
                Code::BAD_VALUE,
                "Unknown oplog entry command type: {command} Object field: {}",
                shown.get("o")
            );
        }
        if command == "dropDatabase" && entries.len() > 1 {
            bail!(Code::Location(6_275_900), "dropDatabase in an applyOps must be the only entry");
        }
    }
    Ok(())
}

/// Checks the argument `oplogApplicationMode`. All modes work alike: what MongoDB allows only in those of its members
/// (`createIndexes`, `commitIndexBuild`, `startIndexBuild`) is always allowed.
pub(super) fn check_mode(command: Doc<'_>) -> Result<()> {
    match command.get("oplogApplicationMode") {
        Value::Missing | Value::String("InitialSync" | "Recovering" | "Secondary" | "ApplyOps") => {
            Ok(())
        }
        Value::String(other) => bail!(
            Code::FAILED_TO_PARSE,
            "Could not parse oplogApplicationMode :: caused by :: Invalid oplog application mode provided: {other}"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "Could not parse out oplogApplicationMode :: caused by :: \"oplogApplicationMode\" had the wrong \
             type. Expected string, found {}",
            other.kind().name()
        ),
    }
}
