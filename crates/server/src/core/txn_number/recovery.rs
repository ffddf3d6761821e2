//! Commits of transactions that a router does not know, or whose outcome it does not know: see [`super`].

use nagi_bson::{Doc, DocWriter};
use nagi_error::{Code, Result, bail};
use nagi_store::{Durability, WriteOptions};

use super::{
    Phase, Scope, WHOLE, aborted_record, head, is_committed, record_key,
    run::{aborted, leave},
};
use crate::core::command::Context;
use crate::router::SHARD;

/// Writes `recoveryToken`, as a mongos does: it names a shard as soon as the transaction has written.
pub(super) fn write_token(scope: &Scope, out: &mut DocWriter<'_>) {
    out.doc("recoveryToken", |token| {
        if scope.state.has_written {
            token.put("recoveryShardId", SHARD);
        }
    });
}

/// Returns true if the record of the transaction has to decide a commit.
///
/// # Errors
/// 251 if the transaction is unknown and has only read: there is nothing to find out.
pub(super) fn is_due(cx: &Context<'_>, scope: &Scope, token: Option<Doc<'_>>) -> Result<bool> {
    if cx.server.router.is_none() {
        return Ok(false);
    }
    if scope.number == scope.state.number && !matches!(scope.state.phase, Phase::Writes) {
        return Ok(scope.state.is_undecided);
    }
    let Some(token) = token else { return Ok(false) };
    if token.get("recoveryShardId").as_str().is_none() {
        bail!(
            Code::NO_SUCH_TRANSACTION,
            "Recovery token is empty, meaning the transaction only performed reads and can be safely retried"
        );
    }
    Ok(true)
}

/// Decides a commit by the record of the transaction; stores that it is aborted if there is none.
///
/// # Errors
/// 251 if the transaction is aborted from now on, and those of the store: then nothing is decided.
pub(super) fn decide(cx: &Context<'_>, scope: &mut Scope) -> Result<()> {
    let key = record_key(scope, WHOLE);
    let watch = cx.watch();
    let check = || nagi_query::Interrupt::check(&watch);
    let options = WriteOptions {
        durability: Durability::Synced,
        interrupt: Some(&check),
        ..WriteOptions::default()
    };
    leave(cx, scope);
    // If this fails, the records have to be read again.
    scope.state.loaded = false;
    let decided = cx.server.store.write(options, &mut |txn| {
        head::advance(txn, scope, &[key])?;
        match txn.session_record(&key)? {
            Some(record) => Ok(is_committed(record.as_doc())),
            None => txn.put_session_record(&key, aborted_record().as_doc()).map(|()| false),
        }
    })?;
    let committed = decided.value;
    scope.state.number = scope.number;
    scope.state.has_written = true;
    scope.state.is_undecided = false;
    scope.state.phase = if committed { Phase::Committed } else { Phase::Aborted };
    match committed {
        true => Ok(()),
        false => Err(aborted(scope.number)),
    }
}
