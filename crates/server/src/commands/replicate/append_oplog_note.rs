//! `appendOplogNote`: advances the cluster time. Connectors write notes to the oplog for this purpose; there is
//! no oplog here, so only the time advances.

use super::member_of;
use crate::core::command::prelude::*;

pub(in crate::commands) static APPEND_OPLOG_NOTE: Command = Command {
    facts: Facts {
        name: "appendOplogNote",
        help: "Advances the time of the replica set.",
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
    // MongoDB writes an oplog entry here, which advances the time.
    set.clock.tick().map(drop)
}
