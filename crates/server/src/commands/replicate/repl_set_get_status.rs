//! `replSetGetStatus`: the state of the set and its member. Tools recognize a standalone by the error.

use super::member_of;
use crate::clock;
use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::replica::{Member, ReplicaSet, Role};

pub(in crate::commands) static REPL_SET_GET_STATUS: Command = Command {
    facts: Facts {
        name: "replSetGetStatus",
        help: "State of the replica set; an error on a server without one.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetGetStatus]),
    run,
    ..Command::ROW
};

args! { "replSetGetStatus" => Args {
    one:          Value<'a> = "replSetGetStatus",
    initial_sync: Value<'a> = "initialSync",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    if cx.server.router.is_some() {
        let error =
            err!(Code::COMMAND_NOT_FOUND, "replSetGetStatus is not supported through mongos");
        return Err(error.with_info(DocBuf::build(|w| w.put("info", "mongos"))));
    }
    write_set_status(cx.server, member_of(cx)?, out)
}

/// Writes the fields of the reply. Fails if the set is not initiated.
pub(in crate::commands) fn write_set_status(
    server: &Server,
    set: &ReplicaSet,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let member = set.initialized()?;
    let state = match set.role() {
        Role::Primary => 1,
        _ => 2,
    };
    out.put("set", &set.name);
    out.put("date", Value::DateTime(clock::wall_ms()));
    out.put("myState", state);
    out.put("term", member.term);
    out.put("syncSourceHost", "");
    out.put("syncSourceId", -1);
    out.put("heartbeatIntervalMillis", 2000_i64);
    for name in [
        "majorityVoteCount",
        "writeMajorityCount",
        "votingMembersCount",
        "writableVotingMembersCount",
    ] {
        out.put(name, 1);
    }
    let date = Value::DateTime(set.clock.written_ms());
    out.doc("optimes", |w| {
        w.doc("lastCommittedOpTime", |w| op_time(set, &member, w));
        w.put("lastCommittedWallTime", date);
        w.doc("readConcernMajorityOpTime", |w| op_time(set, &member, w));
        w.doc("appliedOpTime", |w| op_time(set, &member, w));
        w.doc("durableOpTime", |w| op_time(set, &member, w));
        w.put("lastAppliedWallTime", date);
        w.put("lastDurableWallTime", date);
    });
    out.put("lastStableRecoveryTimestamp", Value::Timestamp(set.clock.operation()));
    let uptime = (clock::micros_since(server.identity.started) / 1_000_000) as i32;
    out.array("members", |list| {
        list.doc(|w| {
            w.put("_id", 0);
            w.put("name", &member.host);
            w.put("health", 1.0);
            w.put("state", state);
            w.put("stateStr", if state == 1 { "PRIMARY" } else { "SECONDARY" });
            w.put("uptime", uptime);
            w.doc("optime", |w| op_time(set, &member, w));
            w.put("optimeDate", date);
            w.put("lastAppliedWallTime", date);
            w.put("lastDurableWallTime", date);
            w.put("syncSourceHost", "");
            w.put("syncSourceId", -1);
            w.put("infoMessage", "");
            if state == 1 {
                w.put("electionTime", Value::Timestamp(member.elected_at));
                w.put("electionDate", Value::DateTime(member.elected_ms));
            }
            w.put("configVersion", member.version as i32);
            w.put("configTerm", member.term);
            w.put("self", true);
            w.put("lastHeartbeatMessage", "");
        });
    });
    Ok(())
}

fn op_time(set: &ReplicaSet, member: &Member, w: &mut DocWriter<'_>) {
    w.put("ts", Value::Timestamp(set.clock.operation()));
    w.put("t", member.term);
}
