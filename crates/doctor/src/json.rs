//! The report as one JSON document.

use nagi_bson::{DocBuf, DocWriter, json};

use crate::checks::Check;
use crate::facts::Facts;
use crate::measure::{Latencies, Measured};
use crate::report::Report;

/// `{dbPath, serverPid, exitCode, findings: [...], good: {...}, notKnown: {...}, measured: {...}}`.
pub(crate) fn print(facts: &Facts, report: &Report) -> String {
    json::to_relaxed(document(facts, report).as_doc())
}

/// The same as a document.
pub(crate) fn document(facts: &Facts, report: &Report) -> DocBuf {
    DocBuf::build(|out| {
        if let Some(data) = &facts.data {
            out.put("dbPath", data.path.as_str());
            out.put("totalBytes", data.total_bytes as i64);
            out.put("availableBytes", data.available_bytes as i64);
        }
        if let Some(pid) = facts.server_pid {
            out.put("serverPid", i64::from(pid));
        }
        out.put("exitCode", i32::from(report.exit_code()));
        out.array("findings", |out| {
            for (check, finding) in &report.findings {
                out.doc(|out| {
                    out.put("check", check.name);
                    out.put("title", check.title);
                    out.put("severity", finding.severity.name());
                    out.put("what", finding.what.as_str());
                    out.put("why", finding.why.as_str());
                    out.put("fix", finding.fix.as_str());
                    if let Some(line) = &finding.startup {
                        out.put("logId", line.id);
                    }
                });
            }
        });
        by_name(out, "good", &report.good);
        by_name(out, "notKnown", &report.not_known);
        if let Some(measured) = &facts.measured {
            out.doc("measured", |out| put_measured(out, measured));
        }
    })
}

fn by_name(out: &mut DocWriter<'_>, name: &str, rows: &[(&'static Check, String)]) {
    out.doc(name, |out| {
        for (check, text) in rows {
            out.put(check.name, text.as_str());
        }
    });
}

fn put_measured(out: &mut DocWriter<'_>, measured: &Measured) {
    out.put("fileBytes", measured.file_bytes as i64);
    if let Some(problem) = &measured.problem {
        out.put("problem", problem.as_str());
    }
    if let Some(allocation) = &measured.allocation {
        out.put("fallocate", allocation.is_supported);
        out.array("allocation", |out| {
            for (bytes, us) in &allocation.steps {
                out.doc(|out| {
                    out.put("bytes", *bytes as i64);
                    out.put("micros", *us);
                });
            }
        });
    }
    out.put("directIO", measured.has_direct_io);
    out.array("blocks", |out| {
        for block in &measured.blocks {
            out.doc(|out| {
                out.put("bytes", block.bytes as i64);
                out.doc("read", |out| put_latencies(out, &block.read));
                out.doc("write", |out| put_latencies(out, &block.write));
            });
        }
    });
    if let Some(sync) = &measured.sync {
        out.doc("sync", |out| put_latencies(out, sync));
    }
}

fn put_latencies(out: &mut DocWriter<'_>, of: &Latencies) {
    out.put("count", of.count as i64);
    out.put("p50Micros", of.p50_us);
    out.put("p99Micros", of.p99_us);
    out.put("perSecond", of.per_second);
}
