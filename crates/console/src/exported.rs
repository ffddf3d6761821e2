//! The figures of `/metrics` for other protocols.

use nagi_bson::{DocBuf, number};
use nagi_server::Server;

use crate::figures::{self, FIGURES, Kind};
use crate::latencies::{self, KINDS, LABELS};
use crate::machine::Reader;
use crate::open_metrics::BOUNDS_US;

/// A figure and its value, in seconds if it is a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The name of the metric without prefix and suffix. Figures of one metric are neighbours.
    pub metric: &'static str,
    pub help: &'static str,
    /// Only grows while the server runs.
    pub is_counter: bool,
    /// Distinguishes the figures of one metric.
    pub label: Option<(&'static str, &'static str)>,
    /// NaN where there is none.
    pub value: f64,
}

/// Operations of one kind by the time that they took.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// `read`, `write` or `command`.
    pub kind: &'static str,
    /// Upper bounds of all buckets but the last one.
    pub bounds_seconds: Vec<f64>,
    /// Operations in each bucket.
    pub counts: Vec<u64>,
    pub sum_seconds: f64,
}

/// Reads all figures.
pub struct Figures(Reader);

impl Default for Figures {
    fn default() -> Figures {
        Figures::new()
    }
}

impl Figures {
    pub fn new() -> Figures {
        Figures(Reader::new())
    }

    /// All figures, and the times of operations. Takes about a millisecond.
    pub fn read(&self, server: &Server) -> (Vec<Measured>, Vec<Histogram>) {
        let status = DocBuf::build(|out| server.write_status(out));
        let values = figures::read(status.as_doc(), &self.0.read());
        let measured = FIGURES.iter().zip(values).map(|(figure, value)| Measured {
            metric: figure.metric,
            help: figure.help,
            is_counter: figure.kind == Kind::Counter,
            label: figure.label,
            value: if figure.unit == "us" { value / 1e6 } else { value },
        });
        let sums = status.as_doc().get("opLatencies").as_doc();
        let kinds = KINDS.into_iter().zip(LABELS);
        let histogram = |((field, kind), buckets): ((&str, &'static str), Vec<(u64, u64)>)| {
            let mut counts = vec![0; BOUNDS_US.len() + 1];
            for (lower, count) in buckets {
                // Buckets of the server end where one of these begins.
                counts[BOUNDS_US.partition_point(|bound| *bound <= lower)] += count;
            }
            let sum = sums.and_then(|all| number::as_f64(all.get(field).as_doc()?.get("latency")));
            let bounds_seconds = BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).collect();
            Histogram { kind, bounds_seconds, counts, sum_seconds: sum.unwrap_or(0.0) / 1e6 }
        };
        let histograms = kinds.zip(latencies::totals(status.as_doc())).map(histogram);
        (measured.collect(), histograms.collect())
    }
}
