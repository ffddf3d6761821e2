//! The types of an entry's fields. Fields that are not listed are ignored, as in MongoDB.

use crate::args::Field;
use crate::core::command::prelude::*;

/// What a field may contain.
#[derive(Clone, Copy)]
enum Type {
    Bool,
    Date,
    Long,
    Number,
    Object,
    ObjectId,
    OpTime,
    StatementIds,
    String,
    Timestamp,
    Uuid,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::Date => "date",
            Type::Long => "long",
            Type::Number => "long, int, decimal, double",
            Type::Object | Type::OpTime => "object",
            Type::ObjectId => "objectId",
            Type::StatementIds => "int, array",
            Type::String => "string",
            Type::Timestamp => "timestamp",
            Type::Uuid => "binData",
        }
    }

    fn accepts(self, value: Value<'_>) -> bool {
        match self {
            Type::Bool => matches!(value, Value::Bool(_)),
            Type::Date => matches!(value, Value::DateTime(_)),
            Type::Long => matches!(value, Value::Int64(_)),
            Type::Number => value.is_number(),
            Type::Object | Type::OpTime => matches!(value, Value::Doc(_)),
            Type::ObjectId => matches!(value, Value::ObjectId(_)),
            Type::StatementIds => matches!(value, Value::Int32(_) | Value::Array(_)),
            Type::String => matches!(value, Value::String(_)),
            Type::Timestamp => matches!(value, Value::Timestamp(_)),
            Type::Uuid => matches!(value, Value::Binary(_)),
        }
    }
}

/// A field, and if null is refused. Null counts as absent; `ts` and `wall` are optional only in that MongoDB adds those
/// that are absent.
const FIELDS: &[(&str, Type, bool)] = &[
    ("op", Type::String, true),
    ("ns", Type::String, true),
    ("o", Type::Object, true),
    ("ts", Type::Timestamp, true),
    ("wall", Type::Date, true),
    ("t", Type::Long, false),
    ("v", Type::Number, false),
    ("ui", Type::Uuid, false),
    ("o2", Type::Object, false),
    ("b", Type::Bool, false),
    ("tid", Type::ObjectId, false),
    ("lsid", Type::Object, false),
    ("txnNumber", Type::Long, false),
    ("stmtId", Type::StatementIds, false),
    ("fromMigrate", Type::Bool, false),
    ("isTimeseriesUpsert", Type::Bool, false),
    ("checkExistenceForDiffInsert", Type::Bool, false),
    ("bypassEmptyTsReplacement", Type::Bool, false),
    ("destinedRecipient", Type::String, false),
    ("needsRetryImage", Type::String, false),
    ("prevOpTime", Type::OpTime, false),
    ("preImageOpTime", Type::OpTime, false),
    ("postImageOpTime", Type::OpTime, false),
];

/// Checks the fields of an entry.
///
/// # Errors
/// 14 for a wrong type, 40414 for a required field that is missing or null, 40413 for a field that occurs twice; 4 for
/// a time of an operation that lacks a part.
pub(super) fn check(entry: Doc<'_>) -> Result<()> {
    let mut seen = 0_u32;
    for element in entry {
        let Some(at) = FIELDS.iter().position(|(name, ..)| *name == element.name()) else {
            continue;
        };
        let (name, kind, required) = FIELDS[at];
        let field = Field { command: "OplogEntryBase", name };
        if seen & 1 << at != 0 {
            return Err(field.duplicate());
        }
        seen |= 1 << at;
        match element.value() {
            value if value.is_nullish() && required => return Err(field.missing()),
            value if value.is_nullish() => {}
            value if !kind.accepts(value) => return Err(field.wrong_type(value, kind.name())),
            Value::Doc(time) if matches!(kind, Type::OpTime) => check_op_time(time)?,
            Value::Array(ids) if matches!(kind, Type::StatementIds) => check_ids(ids)?,
            _ => {}
        }
    }
    match entry.element("o") {
        Some(_) => Ok(()),
        None => Err(Field { command: "OplogEntryBase", name: "o" }.missing()),
    }
}

fn check_ids(ids: nagi_bson::Array<'_>) -> Result<()> {
    let field = Field { command: "OplogEntryBase", name: "stmtId" };
    match ids.iter().find(|id| !matches!(id, Value::Int32(_))) {
        Some(wrong) => Err(field.wrong_type(wrong, "int")),
        None => Ok(()),
    }
}

/// The time of an operation: its timestamp and its term.
fn check_op_time(time: Doc<'_>) -> Result<()> {
    match time.get("ts") {
        Value::Timestamp(_) => {}
        Value::Missing => bail!(Code::NO_SUCH_KEY, "Missing expected field \"ts\""),
        other => bail!(
            Code::TYPE_MISMATCH,
            "\"ts\" had the wrong type. Expected timestamp, found {}",
            other.kind().name()
        ),
    }
    match time.get("t") {
        Value::Missing => bail!(Code::NO_SUCH_KEY, "Missing expected field \"t\""),
        value if value.is_number() => Ok(()),
        other => bail!(
            Code::TYPE_MISMATCH,
            "\"t\" had the wrong type. Expected a number, found {}",
            other.kind().name()
        ),
    }
}
