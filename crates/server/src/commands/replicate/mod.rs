//! Commands of replica sets, for a set of one member; a standalone refuses most of them, and a router has only
//! `replSetGetStatus`, which says so.

mod append_oplog_note;
mod apply_ops;
mod repl_set_freeze;
mod repl_set_get_config;
mod repl_set_get_status;
mod repl_set_initiate;
mod repl_set_reconfig;
mod repl_set_resize_oplog;
mod repl_set_step_down;

pub(super) use append_oplog_note::APPEND_OPLOG_NOTE;
pub(super) use apply_ops::APPLY_OPS;
pub(super) use repl_set_freeze::REPL_SET_FREEZE;
pub(super) use repl_set_get_config::REPL_SET_GET_CONFIG;
pub(super) use repl_set_get_status::{REPL_SET_GET_STATUS, write_set_status};
pub(super) use repl_set_initiate::REPL_SET_INITIATE;
pub(super) use repl_set_reconfig::REPL_SET_RECONFIG;
pub(super) use repl_set_resize_oplog::REPL_SET_RESIZE_OPLOG;
pub(super) use repl_set_step_down::REPL_SET_STEP_DOWN;

use crate::core::command::prelude::*;
use crate::replica::ReplicaSet;

/// The replica set of this server (76 on a standalone).
fn member_of<'c>(cx: &Context<'c>) -> Result<&'c ReplicaSet> {
    match &cx.server.replica {
        Some(replica) => Ok(replica),
        None => bail!(Code::NO_REPLICATION_ENABLED, "not running with --replSet"),
    }
}

/// Parses an argument that is a document. A number or an absent value counts as an empty document.
fn document_argument<'a>(command: &str, value: Value<'a>) -> Result<Doc<'a>> {
    match value {
        Value::Doc(doc) => Ok(doc),
        value if value.is_nullish() || value.is_number() => Ok(Doc::EMPTY),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{command}.{command}' is the wrong type '{}', expected type 'object'",
            other.kind().name()
        ),
    }
}
