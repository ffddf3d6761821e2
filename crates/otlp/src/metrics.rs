//! The figures of `/metrics` as OTLP's `ExportMetricsServiceRequest`.
//!
//! A figure `nagi_operations_total{type="insert"}` of `/metrics` is a point of `nagi.operations` with the attribute
//! `type: insert` here; counters are cumulative sums since the start of the server.

use nagi_console::{Histogram, Measured};

use crate::protobuf::Message;
use crate::resource::Resource;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i64 = 2;

/// What the points of a message have in common, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) start_ns: u64,
    pub(crate) now_ns: u64,
}

/// The bytes of the request.
pub(crate) fn encode(
    resource: &Resource,
    times: Times,
    figures: &[Measured],
    histograms: &[Histogram],
) -> Vec<u8> {
    Message::build(|out| {
        out.message(1, |out| {
            resource.write(out, |scope| {
                // Figures of one metric are neighbours.
                for family in figures.chunk_by(|a, b| a.metric == b.metric) {
                    scope.message(2, |out| write(times, family, out));
                }
                scope.message(2, |out| write_histograms(times, histograms, out));
            });
        });
    })
}

/// The unit, as UCUM writes it.
fn unit(metric: &str) -> &'static str {
    match metric.rsplit('_').next() {
        Some("bytes") => "By",
        Some("seconds") => "s",
        _ => "1",
    }
}

fn write(times: Times, family: &[Measured], out: &mut Message) {
    let Some(first) = family.first() else { return };
    out.text(1, &format!("nagi.{}", first.metric));
    out.text(2, first.help);
    out.text(3, unit(first.metric));
    let points = |out: &mut Message| {
        for figure in family.iter().filter(|figure| !figure.value.is_nan()) {
            out.message(1, |point| {
                point.fixed64(2, if figure.is_counter { times.start_ns } else { 0 });
                point.fixed64(3, times.now_ns);
                point.double_always(4, figure.value);
                if let Some((label, of)) = figure.label {
                    point.attribute(7, label, of);
                }
            });
        }
    };
    match first.is_counter {
        true => out.message(7, |sum| {
            points(sum);
            sum.int(2, CUMULATIVE);
            sum.int(3, 1);
        }),
        false => out.message(5, points),
    }
}

fn write_histograms(times: Times, histograms: &[Histogram], out: &mut Message) {
    out.text(1, "nagi.operation_duration_seconds");
    out.text(2, "Times of reads, writes and other commands.");
    out.text(3, "s");
    out.message(9, |all| {
        for histogram in histograms {
            all.message(1, |point| {
                point.fixed64(2, times.start_ns);
                point.fixed64(3, times.now_ns);
                point.fixed64(4, histogram.counts.iter().sum());
                point.double_always(5, histogram.sum_seconds);
                point.packed(6, histogram.counts.iter().map(|count| count.to_le_bytes()));
                point.packed(7, histogram.bounds_seconds.iter().map(|bound| bound.to_le_bytes()));
                point.attribute(9, "kind", histogram.kind);
            });
        }
        all.int(2, CUMULATIVE);
    });
}
