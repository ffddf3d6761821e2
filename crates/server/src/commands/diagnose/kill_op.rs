//! `killOp`: kills an operation in progress. The reply is the same if the operation does not exist.

use nagi_bson::number::{self, NotInteger};

use crate::core::command::prelude::*;

pub(in crate::commands) static KILL_OP: Command = Command {
    facts: Facts {
        name: "killOp",
        help: "Kills a running operation.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    // As in MongoDB, other fields are ignored: Compass sends `id`, and gets the error of a missing `op`.
    let id = operation_id(req.body.get("op"))?;
    let owner = u64::try_from(id).ok().and_then(|id| cx.server.clients.ops.owner(id));
    let asking = cx.asking();
    let own = owner.is_some_and(|owner| asking.owns(owner.as_ref()));
    if !own && !asking.on_cluster(Action::Killop) {
        return Err(crate::core::access::refusal(req));
    }
    out.put("info", "attempting to kill op");
    let found = u64::try_from(id).is_ok_and(|id| cx.server.clients.ops.kill(id, Code::INTERRUPTED));
    log::info!(target: "COMMAND", id = 20_483, opId = id, found = found; "Attempting to kill op");
    Ok(())
}

/// The id of an operation (4, 14, 26823). A fraction is refused, because a rounded id would kill another
/// operation (2).
fn operation_id(value: Value<'_>) -> Result<i64> {
    let id = number::integer(value).map_err(|reason| match reason {
        _ if value.is_missing() => err!(Code::NO_SUCH_KEY, "Did not provide \"op\" field"),
        NotInteger::NotNumber => err!(
            Code::TYPE_MISMATCH,
            "Expected field \"op\" to have numeric type, but found {}",
            value.kind().name()
        ),
        _ => err!(
            Code::BAD_VALUE,
            "Expected field \"op\" to have a value exactly representable as a 64-bit integer, but \
             found op: {value}"
        ),
    })?;
    if i32::try_from(id).is_err() {
        bail!(Code::Location(26823), "invalid op : {id}. Op ID cannot be represented with 32 bits");
    }
    Ok(id)
}
