//! `/metrics`: the figures in OpenMetrics, and in Prometheus' older text format for clients that do not ask for it.
//!
//! The two differ in the names of counters: OpenMetrics names the family without `_total`.

use std::fmt::Write;

use nagi_bson::{Doc, number};

use crate::alerts::Known;
use crate::figures::{FIGURES, Figure, Kind};
use crate::latencies::{self, KINDS, LABELS};

/// The media types.
pub(crate) const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of the histogram's buckets in microseconds. The server's own are finer; a time series for each would cost its
/// reader more than it tells.
pub(crate) const BOUNDS_US: [u64; 15] = [
    256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576,
    4_194_304, 16_777_216,
];

/// Writes all metrics.
pub(crate) fn write(
    status: Doc<'_>,
    values: &[f64],
    alerts: &[Known],
    version: &str,
    open: bool,
) -> String {
    let mut out = String::with_capacity(16 << 10);
    let mut last = "";
    for (figure, value) in FIGURES.iter().zip(values) {
        if figure.metric != last {
            head(&mut out, figure, open);
            last = figure.metric;
        }
        line(&mut out, figure, *value);
    }
    histogram(&mut out, status, open);
    firing(&mut out, alerts);
    // The sample has the same name in both formats; the family of OpenMetrics has it without the suffix.
    let (family, kind) = if open { ("nagi_build", "info") } else { ("nagi_build_info", "gauge") };
    let _ = writeln!(
        out,
        "# TYPE {family} {kind}\n# HELP {family} The version of the server.\n\
         nagi_build_info{{version=\"{version}\"}} 1",
    );
    if open {
        out.push_str("# EOF\n");
    }
    out
}

fn head(out: &mut String, figure: &Figure, open: bool) {
    let (kind, suffix) = match figure.kind {
        Kind::Counter if open => ("counter", ""),
        Kind::Counter => ("counter", "_total"),
        Kind::Gauge => ("gauge", ""),
    };
    let name = figure.metric;
    let _ = writeln!(out, "# TYPE nagi_{name}{suffix} {kind}");
    let unit = [("_bytes", "bytes"), ("_seconds", "seconds")];
    if let Some((_, unit)) = unit.iter().find(|(end, _)| open && name.ends_with(end)) {
        let _ = writeln!(out, "# UNIT nagi_{name} {unit}");
    }
    let _ = writeln!(out, "# HELP nagi_{name}{suffix} {}", figure.help);
}

fn line(out: &mut String, figure: &Figure, value: f64) {
    if value.is_nan() {
        return;
    }
    let suffix = if figure.kind == Kind::Counter { "_total" } else { "" };
    let _ = write!(out, "nagi_{}{suffix}", figure.metric);
    if let Some((label, of)) = figure.label {
        let _ = write!(out, "{{{label}=\"{of}\"}}");
    }
    let value = if figure.unit == "us" { value / 1e6 } else { value };
    let _ = writeln!(out, " {value}");
}

/// 1 for each rule whose alert lasts.
fn firing(out: &mut String, alerts: &[Known]) {
    if alerts.is_empty() {
        return;
    }
    let name = "nagi_alert_firing";
    let _ = writeln!(out, "# TYPE {name} gauge\n# HELP {name} 1 if the alert lasts.");
    for alert in alerts {
        let rule = alert.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = writeln!(out, "{name}{{rule=\"{rule}\"}} {}", u8::from(alert.is_firing));
    }
}

/// Times of operations, cumulative as the format wants them.
fn histogram(out: &mut String, status: Doc<'_>, open: bool) {
    let name = "nagi_operation_duration_seconds";
    let _ = writeln!(out, "# TYPE {name} histogram");
    if open {
        let _ = writeln!(out, "# UNIT {name} seconds");
    }
    let _ = writeln!(out, "# HELP {name} Times of reads, writes and other commands.");
    let sums = status.get("opLatencies").as_doc();
    let kinds = KINDS.into_iter().zip(LABELS);
    for ((field, kind), buckets) in kinds.zip(latencies::totals(status)) {
        let mut below = buckets.iter().peekable();
        let mut count = 0;
        for bound in BOUNDS_US {
            while let Some((_, more)) = below.next_if(|(lower, _)| *lower < bound) {
                count += more;
            }
            let le = bound as f64 / 1e6;
            let _ = writeln!(out, "{name}_bucket{{kind=\"{kind}\",le=\"{le}\"}} {count}");
        }
        count += below.map(|(_, more)| more).sum::<u64>();
        let sum = sums.and_then(|all| number::as_f64(all.get(field).as_doc()?.get("latency")));
        let _ = writeln!(out, "{name}_bucket{{kind=\"{kind}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_count{{kind=\"{kind}\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{kind=\"{kind}\"}} {}", sum.unwrap_or(0.0) / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;

    use super::*;

    #[test]
    fn both_formats() {
        let status = doc! { "opLatencies": { "reads": {
            "latency": 3_000_000_i64,
            "histogram": [{ "micros": 2_i64, "count": 5_i64 }, { "micros": 3072_i64, "count": 2_i64 },
                { "micros": 33_554_432_i64, "count": 1_i64 }]
        } } };
        let values: Vec<f64> = (0..FIGURES.len()).map(|at| at as f64).collect();
        let alerts = [Known { name: "a \"b\"".to_owned(), is_firing: true }];
        let open = write(status.as_doc(), &values, &alerts, "1.2.3", true);
        let plain = write(status.as_doc(), &values, &alerts, "1.2.3", false);
        for (text, head) in [
            (&open, "# TYPE nagi_operations counter"),
            (&plain, "# TYPE nagi_operations_total counter"),
        ] {
            assert!(text.contains(head), "{text}");
            assert!(text.contains("nagi_operations_total{type=\"query\"} 1\n"));
            assert!(text.contains("_bucket{kind=\"read\",le=\"0.002048\"} 5\n"));
            assert!(text.contains("_bucket{kind=\"read\",le=\"0.004096\"} 7\n"));
            assert!(text.contains("_bucket{kind=\"read\",le=\"+Inf\"} 8\n"));
            assert!(text.contains("_sum{kind=\"read\"} 3\n"));
            assert!(text.contains("nagi_alert_firing{rule=\"a \\\"b\\\"\"} 1\n"));
            assert_eq!(text.matches("# TYPE nagi_cpu_seconds").count(), 1);
            assert_eq!(text.matches("nagi_build_info{version=\"1.2.3\"} 1\n").count(), 1);
            // One label means one thing in all metrics.
            assert!(
                !text.contains("kind=\"reads\"")
                    && text.contains("operation_seconds_total{kind=\"read\"}")
            );
        }
        assert!(
            open.contains("# TYPE nagi_build info\n")
                && open.contains("duration_seconds seconds\n")
        );
        assert!(plain.contains("# TYPE nagi_build_info gauge\n"));
        assert!(
            open.ends_with("# EOF\n") && open.contains("# UNIT nagi_memory_budget_bytes bytes")
        );
        assert!(!plain.contains("EOF") && !plain.contains("UNIT"));
        let unknown = write(status.as_doc(), &vec![f64::NAN; FIGURES.len()], &[], "1", true);
        assert!(!unknown.contains("NaN"));
    }
}
