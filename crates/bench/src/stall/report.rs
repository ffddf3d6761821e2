//! The report of the stall benchmark: a line, a table, a page, JSON.
use super::pairs::TURN;
use super::{Bare, CHARACTERS, Run, STALL_MS};
use crate::html::{Page, Plot};
use crate::pauses::{Pause, explains};
use crate::timeline::Stall;
use nagi_bson::json::JsonWriter;
use std::fmt::Write as _;

const HEAD: [&str; 16] = [
    "run",
    "seconds",
    "inserts/s",
    "of echo",
    "cpu us",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "p99.99 us",
    "max ms",
    "stalls",
    "not in a pause",
    "machine paused ms",
    "count max ms",
    "resident MB",
    "disk MB",
];

impl Bare {
    pub(super) fn line(&self, documents: u64) -> String {
        let echo = self.echo;
        let pairs = self.pairs.as_ref().map_or(String::new(), |pairs| {
            let percent = |part: usize| {
                let share = pairs.shares.get(pairs.shares.len() * part / 4);
                share.copied().unwrap_or(0.0) * 100.0
            };
            format!(
                "in turns of {} ms the server inserts {:.0}/s and its bare engine {:.0}/s: {:.0} % in \
                 the median of {} pairs (half of them {:.0} to {:.0} %)\n",
                TURN.as_millis(),
                pairs.server,
                pairs.engine,
                pairs.median() * 100.0,
                pairs.shares.len(),
                percent(1),
                percent(3),
            )
        });
        format!(
            "stall: {documents} documents of {CHARACTERS} characters; a bare echo of the frames \
             answers {echo:.0}/s\n{pairs}"
        )
    }
}

impl Run {
    /// Number of stalls that no pause of the machine explains.
    fn own_stalls(&self) -> Option<usize> {
        let pauses = self.pauses.as_ref()?;
        let own = |stall: &&Stall| !explains(pauses, stall.at, stall.took);
        Some(self.timeline.stalls().iter().filter(own).count())
    }
}

/// The longest pause.
fn worst_ms(pauses: &[Pause]) -> String {
    let worst = pauses.iter().map(|pause| pause.took).max().unwrap_or_default();
    format!("{:.1}", worst.as_secs_f64() * 1e3)
}

fn cells(number: usize, run: &Run, bare: &Bare) -> Vec<String> {
    let rate = run.inserts.count() as f64 / run.seconds;
    let us = |share: f64| format!("{:.0}", run.inserts.quantile(share) as f64 / 1e3);
    let per = |total: u64| format!("{:.1}", total as f64 / run.inserts.count().max(1) as f64);
    vec![
        number.to_string(),
        format!("{:.1}", run.seconds),
        format!("{rate:.0}"),
        format!("{:.0} %", rate / bare.echo * 100.0),
        run.cpu_us.map_or("-".to_owned(), per),
        us(0.5),
        us(0.99),
        us(0.999),
        us(0.9999),
        format!("{:.1}", run.inserts.max() as f64 / 1e6),
        run.timeline.stall_count().to_string(),
        run.own_stalls().map_or("-".to_owned(), |count| count.to_string()),
        run.pauses.as_ref().map_or("-".to_owned(), |pauses| worst_ms(pauses)),
        format!("{:.1}", run.counts.max() as f64 / 1e6),
        run.resident_bytes.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
        run.disk_bytes.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
    ]
}

pub(super) fn line(number: usize, run: &Run, bare: &Bare) -> String {
    let pairs = HEAD.iter().zip(cells(number, run, bare));
    let mut text =
        pairs.map(|(name, cell)| format!("{name} {cell}")).collect::<Vec<_>>().join(", ");
    text.push('\n');
    for stall in run.timeline.stalls().iter().take(20) {
        let _ = writeln!(
            text,
            "  at {:.1} s an insert took {} ms{}",
            stall.at.as_secs_f64(),
            stall.took.as_millis(),
            match run.pauses.as_ref().is_some_and(|p| explains(p, stall.at, stall.took)) {
                true => ", in a pause of the machine",
                false => "",
            }
        );
    }
    text
}

pub(super) fn table(runs: &[Run], bare: &Bare) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(runs.iter().zip(1..).map(|(run, number)| cells(number, run, bare)));
    rows
}

pub(super) fn page(runs: &[Run], bare: &Bare, documents: u64) -> Page {
    let mut page = Page::new("nagi-bench stall");
    page.paragraph(&bare.line(documents));
    page.paragraph(&format!(
        "Random characters, one by one, each acknowledged; count each second. \
         A stall is an operation over {STALL_MS} ms; \
         those in a pause of the machine itself are counted apart."
    ));
    page.table(&table(runs, bare));
    for (run, number) in runs.iter().zip(1..) {
        page.heading(&format!("Run {number}"));
        let points: Vec<_> = run.timeline.points().collect();
        page.plot(&Plot {
            title: "Worst insert in each tenth of a second",
            unit: "ms",
            points: points.iter().map(|p| (p.0, p.2)).collect(),
            limit: Some(STALL_MS as f64),
        });
        page.plot(&Plot {
            title: "Inserts a second",
            unit: "/s",
            points: points.iter().map(|p| (p.0, p.1)).collect(),
            limit: None,
        });
    }
    page
}

pub(super) fn json(runs: &[Run], bare: &Bare) -> String {
    JsonWriter::file(|w| {
        w.object(|w| {
            w.key("echo_per_second").fixed(bare.echo, 1);
            let share = bare.pairs.as_ref().map(|pairs| pairs.median());
            w.key("share_of_raw_engine").fixed_or_null(share, 3);
            w.key("runs").rows(0, runs, |w, run| w.object(|w| put_run(w, run)));
        });
    })
}

fn put_run(w: &mut JsonWriter<'_>, run: &Run) {
    w.key("seconds").fixed(run.seconds, 3);
    w.key("inserts").literal(run.inserts.count());
    w.key("p50_ns").literal(run.inserts.quantile(0.5));
    w.key("p99_ns").literal(run.inserts.quantile(0.99));
    w.key("p999_ns").literal(run.inserts.quantile(0.999));
    w.key("p9999_ns").literal(run.inserts.quantile(0.9999));
    w.key("max_ns").literal(run.inserts.max());
    w.key("stalls").literal(run.timeline.stall_count());
    w.key("own_stalls").literal_or_null(run.own_stalls());
    w.key("slowest_slot_of_median").fixed(run.timeline.slowest_share().unwrap_or(0.0), 3);
    w.key("count_max_ns").literal(run.counts.max());
    w.key("counts_shrunk").literal(run.shrunk);
    w.key("cpu_us").literal(run.cpu_us.unwrap_or(0));
    w.key("resident_bytes_max").literal(run.resident_bytes.unwrap_or(0));
    w.key("disk_bytes").literal(run.disk_bytes.unwrap_or(0));
}
