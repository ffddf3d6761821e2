//! `appendOplogNote`: writes an entry without a change to the oplog, by which connectors advance the cluster time.

use super::member_of;
use crate::core::command::prelude::*;

pub(in crate::commands) static APPEND_OPLOG_NOTE: Command = Command {
    facts: Facts {
        name: "appendOplogNote",
        help: "Appends a note to the oplog, which advances the time of the replica set.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::AppendOplogNote]),
    run,
    ..Command::ROW
};

args! { "appendOplogNote" => Args {
    one:  Value<'a> = "appendOplogNote",
    data: Doc<'a>   = "data",
    max:  Value<'a> = "maxClusterTime",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let Ok(set) = member_of(cx) else {
        bail!(
            Code::NO_REPLICATION_ENABLED,
            "Must have replication set up to run \"appendOplogNote\""
        );
    };
    match args.max {
        Value::Timestamp(max) if set.clock.operation() > max => bail!(
            Code::STALE_CLUSTER_TIME,
            "Requested maxClusterTime {max} is less or equal to the last primary OpTime"
        ),
        Value::Timestamp(_) | Value::Missing => {}
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'appendOplogNote.maxClusterTime' is the wrong type '{}', expected type \
             'timestamp'",
            other.kind().name()
        ),
    }
    let _writing = cx.begin_write("local")?;
    let stamp = cx.store().append_note(args.data)?;
    cx.store().client().note_commit(stamp);
    set.clock.advance_to(stamp.0)
}
