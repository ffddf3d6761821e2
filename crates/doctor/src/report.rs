//! Runs all checks, and prints the tables for people: findings first, the worst at the top.

use std::fmt::Write as _;

use crate::checks::{CHECKS, Check};
use crate::facts::Facts;
use crate::finding::{Finding, NotKnown, Outcome, Severity};
use crate::measure::{Latencies, Measured};
use crate::units::{bytes, micros};

/// Column at which lines are wrapped.
const COLUMNS: usize = 100;
/// Width of the severity and of the check's name.
const MARGIN: usize = 10 + NAME_WIDTH;
const NAME_WIDTH: usize = 24;

/// The results of all checks.
pub(crate) struct Report {
    /// The worst first.
    pub(crate) findings: Vec<(&'static Check, Finding)>,
    pub(crate) good: Vec<(&'static Check, String)>,
    pub(crate) not_known: Vec<(&'static Check, String)>,
}

impl Report {
    /// Runs every check.
    pub(crate) fn of(facts: &Facts) -> Report {
        let mut report = Report { findings: Vec::new(), good: Vec::new(), not_known: Vec::new() };
        for check in CHECKS {
            match (check.run)(facts) {
                Ok(Outcome::Good(value)) => report.good.push((check, value)),
                Ok(Outcome::Bad(finding)) => report.findings.push((check, *finding)),
                Err(NotKnown(reason)) => report.not_known.push((check, reason)),
            }
        }
        report.findings.sort_by_key(|(_, finding)| finding.severity);
        report
    }

    /// The exit code, for scripts: 3 for a critical finding, 1 for a warning, otherwise 0.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.findings.first().map(|(_, finding)| finding.severity) {
            Some(Severity::Critical) => 3,
            Some(Severity::Warning) => 1,
            Some(Severity::Note) | None => 0,
        }
    }

    /// The number of findings of a severity.
    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|(_, finding)| finding.severity == severity).count()
    }
}

/// The text for people.
pub(crate) fn print(facts: &Facts, report: &Report) -> String {
    let mut out = String::new();
    if let Some(data) = &facts.data {
        let _ = write!(out, "Data directory {}", data.path);
        if let Some(pid) = facts.server_pid {
            let _ = write!(out, ", server with process id {pid}");
        }
        out.push_str("\n\n");
    }
    if !report.findings.is_empty() {
        let _ = writeln!(out, "{:<10}{:<NAME_WIDTH$}FOUND", "SEVERITY", "CHECK");
    }
    for (check, finding) in &report.findings {
        row(&mut out, finding.severity.name(), check.name, &finding.what);
        row(&mut out, "", "  why", &finding.why);
        // On one line, so that it can be copied.
        let _ = writeln!(out, "{:<10}{:<NAME_WIDTH$}{}\n", "", "  fix", finding.fix);
    }
    for (check, value) in &report.good {
        row(&mut out, "good", check.name, value);
    }
    for (check, reason) in &report.not_known {
        row(&mut out, "not known", check.name, reason);
    }
    if let Some(measured) = &facts.measured {
        print_measured(&mut out, measured);
    }
    let _ = writeln!(
        out,
        "\n{} critical, {}, {}, {} good, {} not known",
        report.count(Severity::Critical),
        counted(report.count(Severity::Warning), "warning"),
        counted(report.count(Severity::Note), "note"),
        report.good.len(),
        report.not_known.len()
    );
    out
}

/// `1 note`, `2 notes`.
fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// One row; long text continues below its own beginning.
fn row(out: &mut String, severity: &str, name: &str, text: &str) {
    let _ = write!(out, "{severity:<10}{name:<NAME_WIDTH$}");
    let mut column = MARGIN;
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 && column + 1 + word.len() > COLUMNS {
            let _ = write!(out, "\n{:MARGIN$}", "");
            column = MARGIN;
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}

fn print_measured(out: &mut String, measured: &Measured) {
    if let Some(problem) = &measured.problem {
        let _ = writeln!(out, "\nThe disk: {problem}");
    }
    if measured.allocation.is_none() {
        return;
    }
    let _ = writeln!(out, "\nMeasured with a file of {}", bytes(measured.file_bytes));
    for (reserved, us) in measured.allocation.iter().flat_map(|a| &a.steps) {
        let _ =
            writeln!(out, "  {:<28}{:>10}", format!("allocate {}", bytes(*reserved)), micros(*us));
    }
    if measured.blocks.is_empty() {
        return;
    }
    let heads = ["p50", "p99", "per second"];
    let _ = writeln!(out, "  {:<28}{:>10}{:>10}{:>12}", "direct", heads[0], heads[1], heads[2]);
    let mut figures = |name: String, of: &Latencies| {
        let (p50, p99) = (micros(of.p50_us), micros(of.p99_us));
        let _ = writeln!(out, "  {name:<28}{p50:>10}{p99:>10}{:>12.0}", of.per_second);
    };
    for block in &measured.blocks {
        figures(format!("random read {}", bytes(block.bytes)), &block.read);
    }
    for block in &measured.blocks {
        figures(format!("random write {}", bytes(block.bytes)), &block.write);
    }
    if let Some(sync) = &measured.sync {
        figures("write 4 KB and fdatasync".into(), sync);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::DataFolder;
    use crate::measure::{Allocation, BlockFigures};

    fn facts() -> Facts {
        let mut facts = Facts { data: Some(DataFolder::default()), ..Facts::default() };
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        facts.files.extend([
            file("/proc/sys/kernel/osrelease", "4.9.0"),
            file("/proc/sys/vm/overcommit_memory", "2"),
        ]);
        let of = Latencies { count: 9, p50_us: 80.0, p99_us: 2_000.0, per_second: 9_000.0 };
        facts.measured = Some(Measured {
            file_bytes: 64 << 20,
            allocation: Some(Allocation { is_supported: true, steps: vec![(16 << 20, 42.0)] }),
            has_direct_io: true,
            blocks: vec![BlockFigures { bytes: 4096, read: of.clone(), write: of.clone() }],
            sync: Some(of),
            problem: None,
        });
        facts
    }

    #[test]
    fn the_worst_comes_first() {
        let facts = facts();
        let report = Report::of(&facts);
        let names: Vec<_> = report.findings.iter().map(|(check, _)| check.name).collect();
        assert_eq!(names, ["data_folder", "overcommit", "kernel"]);
        assert_eq!(report.exit_code(), 3);
        let text = print(&facts, &report);
        for line in [
            "critical  data_folder              does not exist",
            "            fix                   sysctl -w vm.overcommit_memory=0   (keep it in /etc/sysctl.d)",
            "not known swap                    /proc/meminfo cannot be read",
            "  allocate 16 MB                   42 us",
            "  random read 4 KB                 80 us    2.0 ms        9000",
            "1 critical, 1 warning, 1 note, 4 good, 31 not known",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let critical = text.find("critical").unwrap();
        assert!(critical < text.find("warning").unwrap(), "{text}");
    }

    #[test]
    fn nothing_bad_is_exit_code_0() {
        assert_eq!(Report::of(&Facts::default()).exit_code(), 0);
    }

    #[test]
    fn json_holds_the_same() {
        let facts = facts();
        let text = crate::json::print(&facts, &Report::of(&facts));
        let doc = nagi_bson::json::parse(&text).unwrap();
        assert_eq!(doc.get("exitCode"), nagi_bson::Value::Int32(3));
        for part in [
            r#""check":"kernel","title":"version of the kernel","severity":"note""#,
            r#""logId":8210019"#,
            r#""disk_syncs":"p50 80 us, p99 2.0 ms""#,
            r#""allocation":[{"bytes":16777216,"micros":42.0}]"#,
            r#""read":{"count":9,"p50Micros":80.0,"p99Micros":2000.0,"perSecond":9000.0}"#,
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
