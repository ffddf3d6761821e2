//! `killCursors`: closes cursors that the client no longer needs.

use crate::core::command::prelude::*;
use crate::core::cursors::Killed;

pub(in crate::commands) static KILL_CURSORS: Command = Command {
    facts: Facts {
        name: "killCursors",
        help: "Kills cursors.",
        api_v1: true,
        on_collection: true,
        in_transaction: true,
        begins_no_transaction: "Cannot run killCursors as the first operation in a multi-document transaction.",
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "killCursors" => Args {
    collection: StrictName<'a>  = "killCursors",
    cursors:    Array<'a> = "cursors",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    // Cursors of commands such as `listCollections` have namespaces that no collection may have.
    let name = args.collection.0;
    if name.is_empty() || name.contains('\0') {
        bail!(Code::INVALID_NAMESPACE, "Invalid namespace specified '{}.{name}'", req.db);
    }
    if args.cursors.is_empty() {
        bail!(Code::BAD_VALUE, "Must specify at least one cursor id in: {}", req.body);
    }
    for (index, value) in args.cursors.iter().enumerate() {
        if !matches!(value, Value::Int64(_)) {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'killCursors.cursors.{index}' is the wrong type '{}', expected type \
                 'long'",
                value.kind().name()
            );
        }
    }
    let asking = cx.asking();
    let mut ids = args.cursors.iter().filter_map(|value| crate::number::truncate(value));
    if !ids.all(|id| may_kill(&asking, id)) {
        return Err(crate::core::access::refusal(req));
    }
    let namespace = format!("{}.{}", req.db, args.collection.0);
    let (mut killed, mut not_found) = (Vec::new(), Vec::new());
    for value in args.cursors.iter() {
        let Value::Int64(id) = value else { continue };
        match cx.server.clients.cursors.kill(id, Some(&namespace)) {
            Killed::Done => killed.push(id),
            Killed::NotFound => not_found.push(id),
        }
    }
    out.array("cursorsKilled", |list| killed.iter().for_each(|id| list.push(*id)));
    out.array("cursorsNotFound", |list| not_found.iter().for_each(|id| list.push(*id)));
    out.put("cursorsAlive", Array::EMPTY);
    out.put("cursorsUnknown", Array::EMPTY);
    Ok(())
}

/// Returns true if the client may kill the cursor: its own, or any other one with the privilege for it. An
/// unknown id is allowed: the reply lists it as not found.
pub(crate) fn may_kill(asking: &Asking<'_>, id: i64) -> bool {
    let Some((namespace, owner)) = asking.server.clients.cursors.owner(id) else { return true };
    let (db, collection) = namespace.split_once('.').unwrap_or((&namespace, ""));
    asking.owns(owner.as_ref())
        || asking.on_cluster(Action::KillAnyCursor)
        || asking.on_collection(db, collection, Action::KillAnyCursor)
}
