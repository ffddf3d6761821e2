//! Sections of `serverStatus` about replication: elections, flow control, the oplog, `metrics.repl`.
//!
//! A set has one member. Figures of what it would do with others - fetching and applying their operations, waiting for
//! them, elections that others call - are 0, because it never happens. Tools expect the fields.

use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::replica::Role;

/// The state of a member of a replica set.
pub(super) fn repl(server: &Server, out: &mut DocWriter<'_>) {
    let Some(set) = &server.replica else { return };
    let Some(member) = set.member() else { return };
    let primary = set.role() == Role::Primary;
    server.identity.topology.write(out);
    out.array("hosts", |list| list.push(&member.host));
    out.put("setName", &set.name);
    out.put("setVersion", member.version as i32);
    out.put("isWritablePrimary", primary);
    out.put("secondary", !primary);
    if primary {
        out.put("primary", &member.host);
        out.put("electionId", &member.election_id());
    }
    out.put("me", &member.host);
    out.doc("lastWrite", |out| set.write_last_write(&member, out));
    out.put("rbid", 1);
    // 1 means off, 2 means on.
    out.put("userWriteBlockMode", 1 + i32::from(server.settings.write_block.is_on()));
}

/// Elections since the start of the process.
pub(super) fn elections(server: &Server, out: &mut DocWriter<'_>) {
    let Some(set) = &server.replica else { return };
    let counts = &set.elections;
    // Each election of the only member is successful.
    let reasons = [
        ("stepUpCmd", 0),
        ("priorityTakeover", 0),
        ("catchUpTakeover", 0),
        ("electionTimeout", counts.begun.get()),
        ("freezeTimeout", counts.after_step_down.get()),
    ];
    for (reason, count) in reasons {
        out.doc(reason, |out| {
            out.put("called", count);
            out.put("successful", count);
        });
    }
    let never = [
        "numStepDownsCausedByHigherTerm",
        "numCatchUps",
        "numCatchUpsSucceeded",
        "numCatchUpsAlreadyCaughtUp",
        "numCatchUpsSkipped",
        "numCatchUpsTimedOut",
        "numCatchUpsFailedWithError",
        "numCatchUpsFailedWithNewTerm",
        "numCatchUpsFailedWithReplSetAbortPrimaryCatchUpCmd",
    ];
    never.iter().for_each(|name| out.put(name, 0_i64));
    out.put("averageCatchUpOps", 0.0);
}

/// Writes are slowed down for secondaries that lag behind. There are none.
pub(super) fn flow_control(_: &Server, out: &mut DocWriter<'_>) {
    out.put("enabled", false);
    // MongoDB's value for no limit.
    out.put("targetRateLimit", 1_000_000_000);
    out.put("timeAcquiringMicros", 0_i64);
    out.put("locksPerKiloOp", 0.0);
    out.put("sustainerRate", 0);
    out.put("isLagged", false);
    out.put("isLaggedCount", 0);
    out.put("isLaggedTimeMicros", 0_i64);
}

/// The times of the newest and of the oldest entry of the oplog.
pub(super) fn oplog(server: &Server, out: &mut DocWriter<'_>) {
    // An error of the engine is reported to those who read the oplog itself.
    if let Ok(Some((oldest, newest))) = server.store.change_log_window() {
        out.put("latestOptime", Value::Timestamp(newest.0));
        out.put("earliestOptime", Value::Timestamp(oldest.0));
    }
}

/// Removals of the oldest entries of the oplog.
pub(super) fn oplog_truncation(server: &Server, out: &mut DocWriter<'_>) {
    let Some(set) = &server.replica else { return };
    out.put("oplogMinRetentionHours", set.oplog.hours_min());
    out.put("totalTimeTruncatingMicros", server.metrics.oplog_truncation_micros.get());
    out.put("truncateCount", server.metrics.oplog_truncations.get());
}

/// `opcountersRepl`: operations of other members that were applied here.
pub(super) fn op_counters(_: &Server, out: &mut DocWriter<'_>) {
    for name in ["insert", "query", "update", "delete", "getmore", "command"] {
        out.put(name, 0_i64);
    }
}

fn batches(out: &mut DocWriter<'_>) {
    out.put("batchSize", 0_i64);
    out.doc("batches", |out| {
        out.put("num", 0);
        out.put("totalMillis", 0);
    });
}

fn buffer(out: &mut DocWriter<'_>) {
    ["count", "maxSizeBytes", "sizeBytes"].iter().for_each(|name| out.put(name, 0_i64));
}

/// `metrics.repl`.
pub(super) fn metrics(server: &Server, out: &mut DocWriter<'_>) {
    out.doc("apply", |out| {
        out.put("attemptsToBecomeSecondary", 0_i64);
        batches(out);
        out.put("ops", 0_i64);
    });
    out.doc("write", batches);
    out.doc("buffer", |out| {
        // MongoDB before 8.0 has these fields; tools read them.
        buffer(out);
        out.doc("apply", buffer);
        out.doc("write", buffer);
    });
    out.doc("initialSync", |out| {
        let names = ["completed", "failedAttempts", "failures"];
        names.iter().for_each(|name| out.put(name, 0_i64));
    });
    out.doc("network", |out| {
        out.put("bytes", 0_i64);
        out.doc("getmores", |out| {
            out.put("num", 0);
            out.put("totalMillis", 0);
        });
        out.put("ops", 0_i64);
        out.put("readersCreated", 0_i64);
        out.doc("replSetUpdatePosition", |out| out.put("num", 0_i64));
    });
    let last = match server.replica.as_ref().map(|set| set.role()) {
        Some(Role::Primary) => "stepUp",
        Some(Role::Secondary) => "stepDown",
        _ => "",
    };
    out.doc("stateTransition", |out| out.put("lastStateTransition", last));
    out.doc("syncSource", |out| {
        let names = [
            "numSelections",
            "numTimesChoseDifferent",
            "numTimesChoseSame",
            "numTimesCouldNotFind",
        ];
        names.iter().for_each(|name| out.put(name, 0_i64));
    });
}
