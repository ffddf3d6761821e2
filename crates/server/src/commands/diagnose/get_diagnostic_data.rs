//! `getDiagnosticData`: the newest sample of the diagnostic data, and the job that takes samples.
//!
//! A sample has the replies of other commands as sections, each between the times when its collection began and ended,
//! as MongoDB's tools expect it.

use std::sync::Arc;
use std::time::Duration;

use super::build_info::write_build_info;
use super::host_info::write_host_info;
use super::server_status::{is_usual, write_server_status};
use crate::clock;
use crate::commands::common::namespace;
use crate::commands::replicate::write_set_status;
use crate::core::access::Asking;
use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::diagnostic_data::{
    Limits, Sample, write_open_files_max, write_system_metrics, write_ulimits,
};
use crate::settings::params::Parameters;

pub(in crate::commands) static GET_DIAGNOSTIC_DATA: Command = Command {
    facts: Facts {
        name: "getDiagnosticData",
        help: "The newest sample of the diagnostic data; empty if none was taken.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run: |cx, _, out| {
        out.put("data", &cx.server.upkeep.diagnostic_data.latest());
        Ok(())
    },
    ..Command::ROW
};

/// What the commands of the sections need; on a standalone that of the oplog's section, too, as in mongod.
fn access(asking: &Asking<'_>, _: &Request<'_>) -> Result<bool> {
    Ok(asking.on_cluster(Action::ServerStatus)
        && asking.on_cluster(Action::ReplSetGetStatus)
        && asking.on_collection("local", "oplog.rs", Action::CollStats))
}

/// Takes a sample if one is due; returns the pause until the next call.
pub(crate) fn record_diagnostic_data(server: &Arc<Server>) -> Duration {
    let params = &server.settings.params;
    let recorder = &server.upkeep.diagnostic_data;
    let now_ms = clock::wall_ms();
    if recorder.is_due(now_ms, params.int("diagnosticDataCollectionPeriodMillis").max(1)) {
        recorder.unless_closed(|| match params.bool("diagnosticDataCollectionEnabled") {
            true => recorder.record(&Sample {
                now_ms,
                doc: sample(server),
                limits: limits(params),
                facts: &|out| facts(server, out),
            }),
            false => recorder.finish(now_ms),
        });
    }
    recorder.pause(clock::wall_ms())
}

fn limits(params: &Parameters) -> Limits {
    let positive = |name: &str| params.int(name).max(1).unsigned_abs();
    let bytes = |name: &str| positive(name).saturating_mul(1 << 20);
    let count = |name: &str| usize::try_from(positive(name)).unwrap_or(usize::MAX);
    Limits {
        folder_bytes: bytes("diagnosticDataCollectionDirectorySizeMB"),
        file_bytes: bytes("diagnosticDataCollectionFileSizeMB"),
        chunk_samples: count("diagnosticDataCollectionSamplesPerChunk"),
        interim_samples: count("diagnosticDataCollectionSamplesPerInterimUpdate"),
    }
}

impl Server {
    /// Writes the last samples of the diagnostic data. After [`Server::stop`].
    pub fn close_diagnostic_data(&self) {
        self.upkeep.diagnostic_data.close(clock::wall_ms());
    }
}

/// Sections that change their fields often, or that tell of the configuration.
const LEFT_OUT: &[&str] = &["defaultRWConcern", "querySettings", "sharedWrites"];

fn sample(server: &Server) -> DocBuf {
    DocBuf::build(|out| {
        timed(out, |out| {
            replied(out, "serverStatus", |out| {
                let is_wanted = |name: &str| Ok(is_usual(name) && !LEFT_OUT.contains(&name));
                write_server_status(server, &is_wanted, false, out)
            });
            if let Some(set) = &server.replica {
                replied(out, "replSetGetStatus", |out| write_set_status(server, set, out));
                replied(out, "local.oplog.rs.stats", |out| {
                    match server.store.collection(&namespace("local", "oplog.rs")?) {
                        Some(log) => nagi_query::write_storage_stats(&server.store, &log, 1, out),
                        None => Ok(()),
                    }
                });
            }
            out.doc("systemMetrics", |out| timed(out, write_system_metrics));
        });
    })
}

/// What a file begins with: facts that rarely change.
fn facts(server: &Server, out: &mut DocWriter<'_>) {
    timed(out, |out| {
        replied(out, "buildInfo", |out| {
            write_build_info(server, out);
            Ok(())
        });
        replied(out, "getCmdLineOpts", |out| {
            let config = &server.config;
            out.array("argv", |argv| config.argv.iter().for_each(|arg| argv.push(arg)));
            out.put("parsed", &config.parsed_options);
            Ok(())
        });
        replied(out, "hostInfo", |out| {
            write_host_info(server, out);
            Ok(())
        });
        out.doc("sysMaxOpenFiles", |out| timed(out, write_open_files_max));
        out.doc("ulimits", |out| timed(out, write_ulimits));
    });
}

/// A section with the reply of a command. One that fails is as a reply, too: a set without a configuration has no
/// status.
fn replied(
    out: &mut DocWriter<'_>,
    name: &str,
    fill: impl FnOnce(&mut DocWriter<'_>) -> Result<()>,
) {
    out.doc(name, |out| {
        timed(out, |out| {
            let begin = out.mark();
            match fill(out) {
                Ok(()) => out.put("ok", 1.0),
                Err(error) => {
                    out.truncate(begin);
                    out.put("ok", 0.0);
                    out.put("errmsg", error.message());
                    out.put("code", error.code().0);
                    out.put("codeName", &*error.code().name());
                }
            }
        });
    });
}

fn timed(out: &mut DocWriter<'_>, fill: impl FnOnce(&mut DocWriter<'_>)) {
    out.put("start", Value::DateTime(clock::wall_ms()));
    fill(out);
    out.put("end", Value::DateTime(clock::wall_ms()));
}
