//! The report of `neighbours`: a line per phase, a table, the bounds that were missed, a page with plots, JSON.
use super::Plan;
use super::group::Group;
use super::watch::Sample;
use crate::html::{Page, Plot};
use nagi_bson::json::JsonWriter;
use nagi_proc::cgroup::Version;
use nagi_proc::meminfo;
use std::time::Duration;

/// Maximum growth of the page cache during the scan.
const GROWTH_MAX: u64 = 64 << 20;

/// One phase; it has at least two samples.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) seconds: f64,
    pub(super) samples: Vec<Sample>,
}

/// Facts about the machine and the run.
pub(super) struct Run {
    pub(super) documents: u64,
    pub(super) characters: usize,
    pub(super) text: &'static str,
    pub(super) memory_megabytes: u64,
    pub(super) neighbour_megabytes: u64,
    pub(super) cache_gigabytes: f64,
    pub(super) version: Version,
    /// Swappiness of the machine and, if the cgroup has its own, of the cgroup.
    pub(super) swappiness: Option<u64>,
    pub(super) group_swappiness: Option<u64>,
    pub(super) swap_bytes: u64,
    pub(super) disk_bytes: u64,
    /// Bytes read by the server during the scan.
    pub(super) read_bytes: Option<u64>,
    pub(super) walk_before: Duration,
    pub(super) walk_after: Duration,
    pub(super) phases: Vec<Phase>,
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

impl Phase {
    fn first(&self) -> Sample {
        self.samples.first().copied().unwrap_or_default()
    }

    fn most(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(of).max().unwrap_or(0)
    }

    /// The greatest rise above the lowest value before it. Pages that are dropped meanwhile do not hide a rise.
    fn growth(&self) -> u64 {
        let mut least = u64::MAX;
        let rises = self.samples.iter().map(|s| {
            least = least.min(s.page_cache);
            s.page_cache - least
        });
        rises.max().unwrap_or(0)
    }

    fn faults(&self) -> u64 {
        self.most(|s| s.faults).saturating_sub(self.first().faults)
    }
}

impl Run {
    pub(super) fn new(plan: &Plan, group: &Group) -> Run {
        Run {
            documents: plan.documents,
            characters: plan.characters,
            text: if plan.random { "random" } else { "digits" },
            memory_megabytes: plan.memory_megabytes,
            neighbour_megabytes: plan.neighbour_megabytes,
            cache_gigabytes: plan.cache_gigabytes,
            version: group.version,
            swappiness: nagi_proc::number("/proc/sys/vm/swappiness"),
            group_swappiness: nagi_proc::number(group.folder.join("memory.swappiness")),
            swap_bytes: meminfo::read().swap_total.unwrap_or(0),
            disk_bytes: 0,
            read_bytes: None,
            walk_before: Duration::ZERO,
            walk_after: Duration::ZERO,
            phases: Vec::new(),
        }
    }

    fn phase_of(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The samples from the first one of the scan on, including the second walk.
    fn since_scan(&self) -> impl Iterator<Item = &Sample> {
        let judged = |phase: &&Phase| matches!(phase.name, "scan" | "walk after");
        self.phases.iter().filter(judged).flat_map(|phase| &phase.samples)
    }

    /// The number of major faults, and the maximum of bytes swapped out in addition to those at the beginning.
    pub(super) fn taken(&self) -> (u64, u64) {
        let first = self.since_scan().next().copied().unwrap_or_default();
        let most = |of: fn(&Sample) -> u64| self.since_scan().map(of).max().unwrap_or(0);
        (
            most(|s| s.faults).saturating_sub(first.faults),
            most(|s| s.swapped).saturating_sub(first.swapped),
        )
    }

    /// The bounds that were missed.
    pub(super) fn missed(&self) -> Vec<String> {
        let (faults, swapped) = self.taken();
        let growth = self.phase_of("scan").map_or(0, Phase::growth);
        let mut missed = Vec::new();
        if faults > 0 {
            missed.push(format!("the neighbour had {faults} major faults"));
        }
        if swapped > 0 {
            missed.push(format!("{:.1} MiB of the neighbour were swapped out", mib(swapped)));
        }
        if growth >= GROWTH_MAX {
            let (grown, bound) = (mib(growth), mib(GROWTH_MAX));
            missed.push(format!("the page cache grew by {grown:.1} MiB, {bound:.0} are the bound"));
        }
        missed
    }

    pub(super) fn head(&self) -> String {
        let shown = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| n.to_string());
        let swap = match self.swap_bytes {
            0 => "no swap (so no heap can be swapped out here)".to_owned(),
            bytes => format!("{:.0} MiB of swap", mib(bytes)),
        };
        format!(
            "neighbours: {} documents of {} characters ({}), cacheSizeGB {}, cgroup v{} of {} MiB, \
             neighbour of {} MiB, swappiness {} (cgroup {}), {swap}\n",
            self.documents,
            self.characters,
            self.text,
            self.cache_gigabytes,
            if self.version == Version::One { 1 } else { 2 },
            self.memory_megabytes,
            self.neighbour_megabytes,
            shown(self.swappiness),
            shown(self.group_swappiness),
        )
    }

    fn megabytes(&self) -> f64 {
        self.documents as f64 * self.characters as f64 / 1e6
    }

    /// Megabytes of documents scanned per second.
    fn scan_mb_per_second(&self) -> f64 {
        self.megabytes() / self.phase_of("scan").map_or(f64::NAN, |scan| scan.seconds).max(1e-9)
    }
}

pub(super) fn line(phase: &Phase) -> String {
    format!(
        "{:<11} {:>7.1} s, page cache at most {:.1} MiB, server at most {:.1} MiB, \
         neighbour {} major faults\n",
        phase.name,
        phase.seconds,
        mib(phase.most(|s| s.page_cache)),
        mib(phase.most(|s| s.server)),
        phase.faults(),
    )
}

pub(super) fn table(run: &Run) -> Vec<Vec<String>> {
    let titles = [
        "work",
        "s",
        "cache before MiB",
        "most MiB",
        "growth MiB",
        "server MiB",
        "major faults",
        "swapped MiB",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for phase in &run.phases {
        rows.push(vec![
            phase.name.to_owned(),
            format!("{:.1}", phase.seconds),
            format!("{:.1}", mib(phase.first().page_cache)),
            format!("{:.1}", mib(phase.most(|s| s.page_cache))),
            format!("{:.1}", mib(phase.growth())),
            format!("{:.1}", mib(phase.most(|s| s.server))),
            phase.faults().to_string(),
            format!("{:.1}", mib(phase.most(|s| s.swapped))),
        ]);
    }
    rows
}

pub(super) fn summary(run: &Run) -> String {
    let (faults, swapped) = run.taken();
    format!(
        "scanned {:.0} MB at {:.0} MB/s, {} MiB of them read from disk ({:.0} MiB lie there); \
         neighbour: {faults} major faults, {swapped} bytes swapped, walks {:.1} ms before, {:.1} ms after\n",
        run.megabytes(),
        run.scan_mb_per_second(),
        run.read_bytes.map_or("unknown".to_owned(), |bytes| format!("{:.0}", mib(bytes))),
        mib(run.disk_bytes),
        run.walk_before.as_secs_f64() * 1e3,
        run.walk_after.as_secs_f64() * 1e3,
    )
}

pub(super) fn page(run: &Run) -> Page {
    let mut page = Page::new("A scan beside another process");
    page.paragraph(&run.head());
    page.paragraph(&summary(run));
    let missed = run.missed();
    page.paragraph(&match missed.is_empty() {
        true => "All bounds are kept.".to_owned(),
        false => format!("Missed: {}.", missed.join(", ")),
    });
    page.table(&table(run));
    let all: Vec<_> = run.phases.iter().flat_map(|phase| &phase.samples).collect();
    let mut plot = |title, unit, limit, samples: &[&Sample], of: fn(&Sample) -> f64| {
        let points = samples.iter().map(|s| (s.at, of(s))).collect();
        page.plot(&Plot { title, unit, points, limit });
    };
    if let Some(scan) = run.phase_of("scan") {
        let first = scan.first();
        let bound = mib(first.page_cache + GROWTH_MAX);
        let moved: Vec<_> =
            scan.samples.iter().map(|s| Sample { at: s.at - first.at, ..*s }).collect();
        let moved: Vec<_> = moved.iter().collect();
        plot("Page cache during the scan", "MiB", Some(bound), &moved, |s| mib(s.page_cache));
    }
    plot("Page cache from load to end", "MiB", None, &all, |s| mib(s.page_cache));
    plot("Resident memory of the server", "MiB", None, &all, |s| mib(s.server));
    plot("Major faults of the neighbour", "", None, &all, |s| s.faults as f64);
    plot("Swapped bytes of the neighbour", "MiB", None, &all, |s| mib(s.swapped));
    page
}

pub(super) fn json(run: &Run) -> String {
    JsonWriter::file(|w| {
        w.object(|w| {
            put_run(w, run);
            w.line(1);
            w.key("phases").array(|w| {
                for phase in &run.phases {
                    w.line(2);
                    w.object(|w| put_phase(w, phase));
                }
                w.last_line(1);
            });
        });
    })
}

fn put_run(w: &mut JsonWriter<'_>, run: &Run) {
    let (faults, swapped) = run.taken();
    w.key("documents").literal(run.documents);
    w.key("characters").literal(run.characters);
    w.key("text").string(run.text);
    w.key("cacheSizeGB").literal(run.cache_gigabytes);
    w.key("memoryMegabytes").literal(run.memory_megabytes);
    w.key("neighbourMegabytes").literal(run.neighbour_megabytes);
    w.key("swappiness").literal_or_null(run.swappiness);
    w.key("groupSwappiness").literal_or_null(run.group_swappiness);
    w.key("swapBytes").literal(run.swap_bytes);
    w.line(1);
    w.key("majorFaults").literal(faults);
    w.key("swappedBytes").literal(swapped);
    w.key("scanMBPerSecond").fixed(run.scan_mb_per_second(), 1);
    w.key("readBytes").literal_or_null(run.read_bytes);
    w.key("diskBytes").literal(run.disk_bytes);
    w.key("kept").literal(run.missed().is_empty());
}

fn put_phase(w: &mut JsonWriter<'_>, phase: &Phase) {
    w.key("work").string(phase.name);
    w.key("seconds").fixed(phase.seconds, 3);
    w.key("samples").literal(phase.samples.len());
    w.key("cacheBeforeBytes").literal(phase.first().page_cache);
    w.key("cachePeakBytes").literal(phase.most(|s| s.page_cache));
    w.key("cacheGrowthBytes").literal(phase.growth());
    w.key("serverPeakBytes").literal(phase.most(|s| s.server));
    w.key("majorFaults").literal(phase.faults());
    w.key("swappedPeakBytes").literal(phase.most(|s| s.swapped));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scan: &[(u64, u64, u64)]) -> Run {
        let sample = |at: f64, (page_cache, faults, swapped): (u64, u64, u64)| Sample {
            at,
            page_cache: page_cache << 20,
            server: 5 << 20,
            faults,
            swapped,
        };
        let phase = |name, list: &[(u64, u64, u64)]| {
            let samples = list.iter().zip(0..).map(|(s, at)| sample(f64::from(at), *s)).collect();
            Phase { name, seconds: 2.0, samples }
        };
        Run {
            documents: 4,
            characters: 1_000_000,
            text: "random",
            memory_megabytes: 100,
            neighbour_megabytes: 50,
            cache_gigabytes: 1.0,
            version: Version::One,
            swappiness: Some(60),
            group_swappiness: None,
            swap_bytes: 0,
            disk_bytes: 4 << 20,
            read_bytes: Some(3 << 20),
            walk_before: Duration::from_millis(1),
            walk_after: Duration::from_millis(2),
            phases: vec![phase("load", &[(0, 0, 0), (500, 7, 0)]), phase("scan", scan)],
        }
    }

    #[test]
    fn what_happens_before_the_scan_is_shown_and_not_judged() {
        let run = run(&[(10, 7, 0), (73, 7, 0), (20, 7, 0)]);
        assert!(run.missed().is_empty());
        assert_eq!(table(&run)[1][4..], ["500.0", "5.0", "7", "0.0"]);
        assert_eq!(table(&run)[2][2..5], ["10.0", "73.0", "63.0"]);
        assert!(summary(&run).starts_with("scanned 4 MB at 2 MB/s, 3 MiB"));
        assert!(json(&run).contains("\"kept\": true"));
        assert!(page(&run).text().contains("All bounds are kept."));
        assert!(run.head().contains("swappiness 60 (cgroup unknown), no swap"));
    }

    #[test]
    fn every_bound_is_looked_at() {
        let run = run(&[(90, 7, 0), (10, 7, 0), (74, 9, 4096)]);
        assert_eq!(run.taken(), (2, 4096));
        assert_eq!(run.missed().len(), 3);
        assert!(json(&run).contains("\"kept\": false"));
    }
}
