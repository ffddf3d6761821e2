//! The report of `memory`: a line per phase, a table, a page with plots, JSON.
use crate::html::{Page, Plot};
use crate::resident::peak;
use nagi_bson::json::JsonWriter;

/// One kind of operation.
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Number of documents, groups or connections.
    pub(super) count: u64,
    pub(super) seconds: f64,
    /// Pairs of seconds since the beginning of the phase and bytes.
    pub(super) samples: Vec<(f64, u64)>,
}

/// All phases with one cache size.
pub(super) struct Run {
    pub(super) cache: f64,
    pub(super) bound: u64,
    pub(super) phases: Vec<Phase>,
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

impl Run {
    fn over(&self, phase: &Phase) -> usize {
        phase.samples.iter().filter(|sample| sample.1 > self.bound).count()
    }

    /// The number of samples above the bound.
    pub(super) fn samples_over(&self) -> usize {
        self.phases.iter().map(|phase| self.over(phase)).sum()
    }

    /// The progress line printed after a phase.
    pub(super) fn line(&self, phase: &Phase) -> String {
        format!(
            "cacheSizeGB {}: {:<16} {:>8} in {:>7.1} s, at most {:>7.1} of {:.1} MiB resident\n",
            self.cache,
            phase.name,
            phase.count,
            phase.seconds,
            megabytes(peak(&phase.samples)),
            megabytes(self.bound),
        )
    }

    /// All samples on one time axis.
    fn line_of_time(&self) -> Vec<(f64, f64)> {
        let mut offset = 0.0;
        let mut points = Vec::new();
        for phase in &self.phases {
            points.extend(phase.samples.iter().map(|s| (offset + s.0, megabytes(s.1))));
            offset += phase.seconds;
        }
        points
    }
}

pub(super) fn table(runs: &[Run]) -> Vec<Vec<String>> {
    let titles = ["cacheSizeGB", "work", "count", "s", "peak MiB", "end MiB", "bound MiB", "over"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for run in runs {
        for phase in &run.phases {
            rows.push(vec![
                run.cache.to_string(),
                phase.name.to_owned(),
                phase.count.to_string(),
                format!("{:.1}", phase.seconds),
                format!("{:.1}", megabytes(peak(&phase.samples))),
                format!("{:.1}", megabytes(phase.samples.last().map_or(0, |s| s.1))),
                format!("{:.1}", megabytes(run.bound)),
                run.over(phase).to_string(),
            ]);
        }
    }
    rows
}

pub(super) fn page(runs: &[Run]) -> Page {
    let mut page = Page::new("Resident memory against the bound");
    page.paragraph(
        "Large documents are inserted, read back, sorted, grouped and indexed; then connections rest. \
         A sample each tenth of a second; the line is cacheSizeGB x 1.10 + 64 MiB.",
    );
    for run in runs {
        page.heading(&format!("cacheSizeGB {}", run.cache));
        page.plot(&Plot {
            title: "Resident memory",
            unit: "MiB",
            points: run.line_of_time(),
            limit: Some(megabytes(run.bound)),
        });
    }
    page.table(&table(runs));
    page
}

pub(super) fn json(runs: &[Run]) -> String {
    let rows = runs.iter().flat_map(|run| run.phases.iter().map(move |phase| (run, phase)));
    let put = |w: &mut JsonWriter<'_>, run: &Run, phase: &Phase| {
        w.key("cacheSizeGB").literal(run.cache);
        w.key("boundBytes").literal(run.bound);
        w.key("work").string(phase.name);
        w.key("count").literal(phase.count);
        w.key("seconds").fixed(phase.seconds, 3);
        w.key("peakBytes").literal(peak(&phase.samples));
        w.key("samples").literal(phase.samples.len());
        w.key("samplesOver").literal(run.over(phase));
    };
    JsonWriter::file(|w| w.rows(0, rows, |w, (run, phase)| w.object(|w| put(w, run, phase))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_above_the_bound_are_counted_and_shown() {
        let phase = |name, samples| Phase { name, count: 3, seconds: 1.0, samples };
        let run = Run {
            cache: 0.5,
            bound: 100 << 20,
            phases: vec![
                phase("insert", vec![(0.0, 50 << 20), (0.1, 101 << 20)]),
                phase("read", vec![(0.0, 90 << 20)]),
            ],
        };
        assert_eq!((run.samples_over(), run.line_of_time()[2]), (1, (1.0, 90.0)));
        let runs = [run];
        assert_eq!(table(&runs)[1][4..], ["101.0", "101.0", "100.0", "1"]);
        let one = |work, peak, samples, over| {
            format!(
                "  {{\"cacheSizeGB\": 0.5, \"boundBytes\": 104857600, \"work\": \"{work}\", \"count\": 3, \
                 \"seconds\": 1.000, \"peakBytes\": {peak}, \"samples\": {samples}, \"samplesOver\": {over}}}"
            )
        };
        let (insert, read) = (one("insert", 101 << 20, 2, 1), one("read", 90 << 20, 1, 0));
        assert_eq!(json(&runs), format!("[\n{insert},\n{read}\n]\n"));
        assert!(page(&runs).text().contains("cacheSizeGB 0.5"));
    }
}
