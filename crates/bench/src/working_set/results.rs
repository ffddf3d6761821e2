//! The figures as a table, as JSON, and as a page with the curve of throughput over size.
use crate::chart::{Chart, Series};
use crate::html::Page;
use crate::load::Measured;
use crate::report::{plain_name, put_quantiles};
use nagi_bson::json::JsonWriter;

/// One size on one disk.
pub(super) struct Cell {
    pub(super) documents: u64,
    /// Percentage of the cache that MongoDB would have.
    pub(super) size: u64,
    pub(super) disk: String,
    pub(super) measured: Measured,
    pub(super) resident: Option<u64>,
}

const HEAD: [&str; 10] = [
    "of cache",
    "documents",
    "disk",
    "reads/s",
    "of the smallest",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max ms",
    "resident MB",
];

impl Cell {
    fn rate(&self) -> f64 {
        self.measured.ops_per_second()
    }

    fn us(&self, share: f64) -> f64 {
        self.measured.latencies.quantile(share) as f64 / 1e3
    }

    /// Its rate relative to that of the smallest size on the same disk.
    fn share(&self, cells: &[Cell]) -> f64 {
        let same = cells.iter().filter(|cell| cell.disk == self.disk);
        let smallest = same.min_by_key(|cell| cell.size).map_or(self.rate(), Cell::rate);
        self.rate() / smallest.max(1e-9)
    }

    pub(super) fn line(&self) -> String {
        format!(
            "  {} % ({} documents), disk {}: {:.0} reads/s, p50 {:.0} us, p99 {:.0} us\n",
            self.size,
            self.documents,
            self.disk,
            self.rate(),
            self.us(0.5),
            self.us(0.99)
        )
    }
}

pub(super) fn table(cells: &[Cell]) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for cell in cells {
        rows.push(vec![
            format!("{} %", cell.size),
            cell.documents.to_string(),
            cell.disk.clone(),
            format!("{:.0}", cell.rate()),
            format!("{:.0} %", cell.share(cells) * 100.0),
            format!("{:.0}", cell.us(0.5)),
            format!("{:.0}", cell.us(0.99)),
            format!("{:.0}", cell.us(0.999)),
            format!("{:.1}", cell.measured.latencies.max() as f64 / 1e6),
            cell.resident.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
        ]);
    }
    rows
}

pub(super) fn page(cells: &[Cell], name: &str, memory_bytes: u64) -> Page {
    let mut page = Page::new("nagi-bench working-set");
    page.paragraph(&format!(
        "{name}: uniform reads by _id of documents of ten fields of a hundred characters, {} MiB of memory. Sizes are \
         in percent of the cache that MongoDB 3.4 would have with as much. Disks: reads a second.",
        memory_bytes >> 20
    ));
    page.table(&table(cells));
    let mut disks: Vec<&str> = Vec::new();
    for cell in cells {
        if !disks.contains(&cell.disk.as_str()) {
            disks.push(&cell.disk);
        }
    }
    let series = |value: &dyn Fn(&Cell) -> f64| -> Vec<Series> {
        let of = |disk: &&str| {
            let same = cells.iter().filter(|cell| cell.disk == *disk);
            let points = same.map(|cell| (cell.size as f64, value(cell))).collect();
            Series { name: format!("disk {disk}"), points }
        };
        disks.iter().map(of).collect()
    };
    let (x_unit, title) = ("% of the cache", "Reads a second against working set");
    page.chart(&Chart { title, x_unit, y_unit: "/s", series: series(&Cell::rate) });
    let p99 = series(&|cell| cell.us(0.99) / 1e3);
    page.chart(&Chart { title: "p99 against working set", x_unit, y_unit: "ms", series: p99 });
    page
}

pub(super) fn json(cells: &[Cell], name: &str) -> String {
    let put = |w: &mut JsonWriter<'_>, cell: &Cell| {
        w.key("percent_of_cache").literal(cell.size);
        w.key("documents").literal(cell.documents);
        w.key("disk").string(&cell.disk);
        w.key("seconds").fixed(cell.measured.seconds, 3);
        w.key("operations").literal(cell.measured.latencies.count());
        w.key("reads_per_second").fixed(cell.rate(), 1);
        w.key("of_smallest").fixed(cell.share(cells), 3);
        put_quantiles(w, &cell.measured.latencies);
        w.key("resident_bytes").literal_or_null(cell.resident);
    };
    JsonWriter::file(|w| {
        w.object(|w| {
            w.key("server").string(&plain_name(name));
            w.key("cells").rows(0, cells, |w, cell| w.object(|w| put(w, cell)));
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    #[test]
    fn cells_are_compared_with_the_smallest_on_their_disk() {
        let cell = |size, disk: &str, count| {
            let mut latencies = Histogram::new();
            (0..count).for_each(|_| latencies.record(1000));
            let measured = Measured { seconds: 1.0, latencies, cpu_us: None };
            Cell { documents: size * 10, size, disk: disk.to_owned(), measured, resident: None }
        };
        let cells = [cell(92, "fast", 100), cell(92, "150", 50), cell(182, "fast", 60)];
        assert_eq!(table(&cells)[3][4], "60 %");
        assert!(json(&cells, "n").contains("\"of_smallest\": 0.600"));
        let _ = page(&cells, "n", 1 << 30);
    }
}
