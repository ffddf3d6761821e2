//! `getDiagnosticData`: the newest sample of the diagnostic data, and the job that takes samples.
//!
//! A sample has the replies of other commands as sections, each between the times when its collection began and ended,
//! as MongoDB's tools expect it.

use std::time::Duration;

use super::build_info::write_build_info;
use super::host_info::write_host_info;
use super::server_status::write_server_status;
use crate::clock;
use crate::commands::replicate::write_set_status;
use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::diagnostic_data::write_system_metrics;

pub(in crate::commands) static GET_DIAGNOSTIC_DATA: Command = Command {
    facts: Facts {
        name: "getDiagnosticData",
        help: "The newest sample of the diagnostic data; empty if none was taken.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[
        Action::ServerStatus,
        Action::ReplSetGetStatus,
        Action::ConnPoolStats,
    ]),
    run: |cx, req, out| {
        Args::parse(req)?;
        out.put("data", &cx.server.upkeep.diagnostic_data.latest());
        Ok(())
    },
    ..Command::ROW
};

args! { "getDiagnosticData" => Args {
    one: Value<'a> = "getDiagnosticData",
}}

/// Takes a sample; returns the pause until the next one.
pub(crate) fn record_diagnostic_data(server: &std::sync::Arc<Server>) -> Duration {
    let params = &server.settings.params;
    let recorder = &server.upkeep.diagnostic_data;
    if params.bool("diagnosticDataCollectionEnabled") {
        let folder_mb = params.int("diagnosticDataCollectionDirectorySizeMB").max(1) as u64;
        let folder_bytes_max = folder_mb.saturating_mul(1 << 20);
        recorder
            .record(clock::wall_ms(), sample(server), folder_bytes_max, &|out| facts(server, out));
    } else {
        recorder.finish();
    }
    Duration::from_millis(params.int("diagnosticDataCollectionPeriodMillis").max(1) as u64)
}

impl Server {
    /// Writes the last samples of the diagnostic data. After [`Server::stop`].
    pub fn close_diagnostic_data(&self) {
        self.upkeep.diagnostic_data.finish();
    }
}

/// Sections that change their fields, or that tell of the configuration.
const LEFT_OUT: &[&str] = &["defaultRWConcern", "querySettings", "sharedWrites"];

fn sample(server: &Server) -> DocBuf {
    DocBuf::build(|out| {
        timed(out, |out| {
            out.doc("serverStatus", |out| {
                timed(out, |out| {
                    let is_wanted = |name: &str| Ok(!LEFT_OUT.contains(&name));
                    // Nothing fails without arguments.
                    let _ = write_server_status(server, &is_wanted, out);
                });
            });
            if let Some(set) = &server.replica {
                out.doc("replSetGetStatus", |out| {
                    timed(out, |out| {
                        // A set that is not initiated has no status.
                        let _ = write_set_status(server, set, out);
                    });
                });
            }
            out.doc("systemMetrics", |out| timed(out, write_system_metrics));
        });
    })
}

/// What a file begins with: facts that rarely change.
fn facts(server: &Server, out: &mut DocWriter<'_>) {
    timed(out, |out| {
        out.doc("buildInfo", |out| timed(out, |out| write_build_info(server, out)));
        out.doc("getCmdLineOpts", |out| {
            timed(out, |out| {
                let config = &server.config;
                out.array("argv", |argv| config.argv.iter().for_each(|arg| argv.push(arg)));
                out.put("parsed", &config.parsed_options);
            });
        });
        out.doc("hostInfo", |out| timed(out, |out| write_host_info(server, out)));
    });
}

fn timed(out: &mut DocWriter<'_>, fill: impl FnOnce(&mut DocWriter<'_>)) {
    out.put("start", Value::DateTime(clock::wall_ms()));
    fill(out);
    out.put("end", Value::DateTime(clock::wall_ms()));
}
