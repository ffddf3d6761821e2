//! The report of the stall benchmark: a line, a table, a page, JSON.
use super::pairs::TURN;
use super::{Bare, CHARACTERS, Run, STALL_MS};
use crate::html::{Page, Plot};
use crate::pauses::{Pause, explains};
use crate::timeline::Stall;
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
    let mut out = format!(
        "{{\"echo_per_second\": {:.1}, \"share_of_raw_engine\": {}, \"runs\": [\n",
        bare.echo,
        bare.pairs.as_ref().map_or("null".to_owned(), |pairs| format!("{:.3}", pairs.median())),
    );
    for (index, run) in runs.iter().enumerate() {
        let _ = writeln!(
            out,
            "  {{\"seconds\": {:.3}, \"inserts\": {}, \"p50_ns\": {}, \"p99_ns\": {}, \"p999_ns\": {}, \
             \"p9999_ns\": {}, \"max_ns\": {}, \"stalls\": {}, \"own_stalls\": {}, \"slowest_slot_of_median\": {:.3}, \
             \"count_max_ns\": {}, \"counts_shrunk\": {}, \"cpu_us\": {}, \"resident_bytes_max\": {}, \
             \"disk_bytes\": {}}}{}",
            run.seconds,
            run.inserts.count(),
            run.inserts.quantile(0.5),
            run.inserts.quantile(0.99),
            run.inserts.quantile(0.999),
            run.inserts.quantile(0.9999),
            run.inserts.max(),
            run.timeline.stall_count(),
            run.own_stalls().map_or("null".to_owned(), |count| count.to_string()),
            run.timeline.slowest_share().unwrap_or(0.0),
            run.counts.max(),
            run.shrunk,
            run.cpu_us.unwrap_or(0),
            run.resident_bytes.unwrap_or(0),
            run.disk_bytes.unwrap_or(0),
            if index + 1 < runs.len() { "," } else { "" },
        );
    }
    out.push_str("]}\n");
    out
}
