//! `killCursors`: ends cursors that the client does not want any more.

use crate::command::prelude::*;
use crate::cursors::Killed;

pub(in crate::commands) static KILL_CURSORS: Command = Command {
    name: "killCursors",
    help: "Ends cursors.",
    api_v1: true,
    on_collection: true,
    in_transaction: true,
    run,
    ..Command::ROW
};

args! { "killCursors" => Args {
    collection: Name<'a>  = "killCursors",
    cursors:    Array<'a> = "cursors",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
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
    let namespace = format!("{}.{}", req.db, args.collection.0);
    let (mut killed, mut not_found) = (Vec::new(), Vec::new());
    for value in args.cursors.iter() {
        let Value::Int64(id) = value else { continue };
        match cx.server.cursors.kill(id, Some(&namespace)) {
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
