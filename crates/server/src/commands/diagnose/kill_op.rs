//! `killOp`: kills an operation in progress. The reply is the same if the operation does not exist.

use nagi_bson::number::{self, NotInteger};

use crate::core::command::prelude::*;
use crate::core::peers::{self, Own};
use crate::core::server::Server;
use crate::names::UserName;

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
    if let Value::String(name) = req.body.get("op")
        && cx.server.store.shares_data()
    {
        return run_anywhere(cx, req, name, out);
    }
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

/// Kills an operation of any server that shares the data, by the name that `currentOp` tells. A router of MongoDB does
/// so with those of shards.
fn run_anywhere(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    name: &str,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let Some((host, id)) = peers::parse_operation(name) else {
        bail!(
            Code::Location(28625),
            "The op argument to killOp must be of the format shardid:opid but found \"{name}\""
        );
    };
    let asking = cx.asking();
    let is_privileged = asking.on_cluster(Action::Killop);
    let own = asking.own().filter(|_| !is_privileged);
    let (found, refused) = match host == cx.server.host_and_port() {
        true => kill(cx.server, id, own.as_ref()),
        false => {
            let question = DocBuf::build(|w| {
                w.doc("killOp", |w| {
                    w.put("host", host);
                    w.put("id", id.cast_signed());
                    Own::write(own.as_ref(), w);
                });
            });
            let answers = peers::order(cx, question.as_doc())?;
            let any =
                |name: &str| answers.iter().any(|answer| answer.get(name) == Value::Bool(true));
            (any("found"), any("refused"))
        }
    };
    if refused || !found && !is_privileged {
        return Err(crate::core::access::refusal(req));
    }
    out.put("shard", host);
    out.put("shardid", id.cast_signed());
    log::info!(target: "COMMAND", id = 20_483, opId = name, found = found; "Attempting to kill op");
    Ok(())
}

/// Kills an operation of this server; only one of this user, if given. Returns if there is one, and if it is another
/// user's.
fn kill(server: &Server, id: u64, own: Option<&Own>) -> (bool, bool) {
    let ops = &server.clients.ops;
    let is_other = |user: Option<UserName>| own.is_some_and(|own| !own.is(user.as_ref()));
    match ops.owner(id) {
        Some(user) if is_other(user.clone()) => (true, true),
        Some(_) => (ops.kill(id, Code::INTERRUPTED), false),
        None => (false, false),
    }
}

/// The answer to another server that wants an operation killed.
pub(in crate::commands) fn answer(server: &Server, question: Value<'_>) -> DocBuf {
    let Value::Doc(question) = question else { return DocBuf::new() };
    let is_here = question.get("host").as_str() == Some(server.host_and_port().as_str());
    let id = number::integer(question.get("id")).ok().and_then(|id| u64::try_from(id).ok());
    let Some(id) = id.filter(|_| is_here) else { return DocBuf::new() };
    let (found, refused) = kill(server, id, Own::read(question).as_ref());
    log::info!(target: "COMMAND", id = 8_200_407, opId = id, found = found, refused = refused;
        "Attempting to kill an operation for a client of another server");
    DocBuf::build(|w| {
        w.put("found", found);
        w.put("refused", refused);
    })
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
