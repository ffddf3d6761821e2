//! Checks and argument types that several commands share: namespaces, UUIDs, views, the `cursor` option.

use nagi_store::{Namespace, Uuid};

use crate::core::command::prelude::*;

/// The namespace of a collection that an argument names (73 if the name is invalid).
pub(crate) fn namespace(db: &str, collection: &str) -> Result<Namespace> {
    Namespace::new(db, collection)
}

/// Parses an argument that must be a UUID (207 for a wrong length, 14 for another type). `field` is its path in
/// error texts.
pub(crate) fn uuid(field: &str, value: Value<'_>) -> Result<Uuid> {
    match value {
        Value::Binary(binary) if binary.subtype == 4 => match binary.bytes.try_into() {
            Ok(bytes) => Ok(Uuid(bytes)),
            Err(_) => bail!(Code::INVALID_UUID, "uuid must be 16 bytes long"),
        },
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}' is the wrong type '{}', expected type 'binData'",
            other.kind().name()
        ),
    }
}

/// Refuses a view where a collection is required (166).
pub(crate) fn refuse_view(cx: &Context<'_>, ns: &Namespace) -> Result<()> {
    match cx.store().collection(ns) {
        Some(collection) if collection.is_view() => {
            bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection")
        }
        _ => Ok(()),
    }
}

/// Checks that the collection of that name has the UUID `expected`, if one is given (361).
pub(crate) fn check_uuid(cx: &Context<'_>, ns: &Namespace, expected: Option<Uuid>) -> Result<()> {
    cx.store().catalog().check_uuid(ns, expected)
}

/// Parses and checks the `collectionUUID` argument of a command on `ns` (14, 361), and returns it.
pub(crate) fn check_uuid_arg(
    cx: &Context<'_>,
    ns: &Namespace,
    command: &str,
    value: Value<'_>,
) -> Result<Option<Uuid>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let expected = Some(uuid(&format!("{command}.collectionUUID"), value)?);
    check_uuid(cx, ns, expected)?;
    Ok(expected)
}

/// Refuses the argument `term`, the election term that members of a replica set send to each other (2).
pub(crate) fn refuse_term(given: bool) -> Result<()> {
    match given {
        false => Ok(()),
        true => bail!(Code::BAD_VALUE, "cannot supply 'term' without active replication"),
    }
}

/// The argument `cursor: {batchSize: n}`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CursorOption {
    pub(crate) batch_size: Option<i64>,
}

impl CursorOption {
    pub(crate) fn parse(command: &'static str, option: Option<Doc<'_>>) -> Result<CursorOption> {
        let mut cursor = CursorOption::default();
        for element in option.unwrap_or(Doc::EMPTY) {
            match (element.name(), element.value()) {
                ("batchSize", value) if value.is_number() => {
                    let count = crate::number::truncate(value).unwrap_or(0);
                    if count < 0 {
                        bail!(
                            Code::Location(51024),
                            "BSON field 'batchSize' value must be >= 0, actual value '{count}'"
                        );
                    }
                    cursor.batch_size = Some(count);
                }
                ("batchSize", value) if value.is_nullish() => {}
                ("batchSize", value) => bail!(
                    Code::TYPE_MISMATCH,
                    "BSON field '{command}.cursor.batchSize' is the wrong type '{}', expected types \
                     '[long, int, decimal, double]'",
                    value.kind().name()
                ),
                (other, _) => bail!(
                    Code::IDL_UNKNOWN_FIELD,
                    "BSON field '{command}.cursor.{other}' is an unknown field."
                ),
            }
        }
        Ok(cursor)
    }
}

/// Refuses client writes to system collections, except those that clients may write, and to those that show the change
/// log (73).
pub(crate) fn check_writable(cx: &Context<'_>, ns: &Namespace) -> Result<()> {
    let may_show_log = matches!(ns.database(), "local" | "config");
    if may_show_log && cx.store().collection(ns).is_some_and(|found| found.shows_log()) {
        bail!(Code::INVALID_NAMESPACE, "cannot write to '{ns}'");
    }
    check_system(ns)
}

/// Refuses the names of system collections that clients may not write (73).
pub(crate) fn check_system(ns: &Namespace) -> Result<()> {
    const SYSTEM: &[&str] = &[
        "system.backup_users",
        "system.js",
        "system.new_users",
        "system.roles",
        "system.users",
        "system.version",
        "system.preimages",
        "system.sessions",
    ];
    if ns.is_system() && !SYSTEM.contains(&ns.collection()) {
        bail!(Code::INVALID_NAMESPACE, "cannot write to '{ns}'");
    }
    Ok(())
}
