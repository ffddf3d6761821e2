//! The results of `compression`: a line per run, the table, the page with plots, JSON.
use super::{Run, SLOW};
use crate::html::{Page, Plot};
use crate::report::plain_name;
use nagi_bson::json::JsonWriter;

const HEAD: [&str; 13] = [
    "compressor",
    "insert s",
    "insert MB/s",
    "cpu us",
    "p50 us",
    "p99 us",
    "max ms",
    "data MB",
    "on disk MB",
    "directory MB",
    "read s",
    "read MB/s",
    "resident MB",
];

fn cells(run: &Run) -> Vec<String> {
    let us = |share: f64| format!("{:.0}", run.inserts.quantile(share) as f64 / 1e3);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let maybe = |bytes: Option<u64>| bytes.map_or("-".to_owned(), megabytes);
    let cpu = run.cpu_us.map(|us| us as f64 / run.inserts.count().max(1) as f64);
    vec![
        run.compressor.clone(),
        format!("{:.1}", run.insert_seconds),
        format!("{:.0}", run.insert_mb_per_second()),
        cpu.map_or("-".to_owned(), |us| format!("{us:.0}")),
        us(0.5),
        us(0.99),
        format!("{:.1}", run.inserts.max() as f64 / 1e6),
        megabytes(run.data_bytes),
        megabytes(run.storage_bytes),
        maybe(run.folder_bytes),
        format!("{:.1}", run.read_seconds),
        format!("{:.0}", run.read_mb_per_second()),
        maybe(run.resident_peak()),
    ]
}

pub(super) fn line(run: &Run) -> String {
    let pairs = HEAD.iter().zip(cells(run));
    let mut text =
        pairs.map(|(name, cell)| format!("{name} {cell}")).collect::<Vec<_>>().join(", ");
    text.push('\n');
    text
}

pub(super) fn table(runs: &[Run]) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(runs.iter().map(cells));
    rows
}

pub(super) fn page(runs: &[Run], documents: u64, characters: usize) -> Page {
    let mut page = Page::new("nagi-bench compression");
    page.paragraph(&format!(
        "{documents} documents of {characters} characters inserted one by one, each acknowledged, then read in \
         order after a restart, under each compressor. On disk: collStats.storageSize after fsync; directory: all \
         of the data directory after the server has stopped, its log included."
    ));
    page.table(&table(runs));
    for run in runs {
        page.heading(&run.compressor);
        let points: Vec<_> = run.timeline.points().collect();
        page.plot(&Plot {
            title: "Worst insert in each tenth of a second",
            unit: "ms",
            points: points.iter().map(|p| (p.0, p.2)).collect(),
            limit: Some(SLOW.as_secs_f64() * 1e3),
        });
        page.plot(&Plot {
            title: "Inserts a second",
            unit: "/s",
            points: points.iter().map(|p| (p.0, p.1)).collect(),
            limit: None,
        });
        if !run.resident.is_empty() {
            page.plot(&Plot {
                title: "Resident memory of the server: inserting, then reading",
                unit: "MB",
                points: run.resident.iter().map(|(at, bytes)| (*at, *bytes as f64 / 1e6)).collect(),
                limit: None,
            });
        }
    }
    page
}

pub(super) fn json(runs: &[Run]) -> String {
    let put = |w: &mut JsonWriter<'_>, run: &Run| {
        w.key("compressor").string(&plain_name(&run.compressor));
        w.key("documents").literal(run.inserts.count());
        w.key("insert_seconds").fixed(run.insert_seconds, 3);
        w.key("cpu_us").literal_or_null(run.cpu_us);
        w.key("p50_ns").literal(run.inserts.quantile(0.5));
        w.key("p99_ns").literal(run.inserts.quantile(0.99));
        w.key("max_ns").literal(run.inserts.max());
        w.key("data_bytes").literal(run.data_bytes);
        w.key("storage_bytes").literal(run.storage_bytes);
        w.key("folder_bytes").literal_or_null(run.folder_bytes);
        w.key("read_seconds").fixed(run.read_seconds, 3);
        w.key("resident_bytes_max").literal_or_null(run.resident_peak());
    };
    JsonWriter::file(|w| w.rows(0, runs, |w, run| w.object(|w| put(w, run))))
}
