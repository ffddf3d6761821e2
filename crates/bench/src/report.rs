//! Tables for people and JSON for programs.
use crate::args::{Args, Outcome, failed};
use crate::html::Page;
use crate::load::Measured;
use std::fmt::Write as _;
use std::io::Write as _;
use std::{fs, io};

/// A measurement and its place in the table.
pub(crate) struct Row {
    pub(crate) server: String,
    pub(crate) operation: &'static str,
    pub(crate) connections: usize,
    pub(crate) measured: Measured,
}

/// Prints to standard output; a closed pipe is ignored.
pub(crate) fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes the files named by `--html` and `--json`, if these are given.
pub(crate) fn write(
    args: &Args,
    page: impl FnOnce() -> Page,
    json: impl FnOnce() -> String,
) -> Outcome {
    if let Some(path) = args.text("html") {
        page().write(path)?;
    }
    match args.text("json") {
        Some(path) => fs::write(path, json()).map_err(failed(path)),
        None => Ok(()),
    }
}

/// A table as text, with the first column aligned left and the others right. The first row is the head.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut out = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.push('\n');
    }
    out
}

/// The table. Ratios are relative to the baseline's row of the same operation and connections.
pub(crate) fn table(rows: &[Row], baseline: &str) -> String {
    let mut out = format!(
        "{:<14} {:<7} {:>5} {:>10} {:>9} {:>8} {:>8} {:>9} {:>9} {:>8}\n",
        "server",
        "op",
        "conns",
        "ops/s",
        "cpu us/op",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "of echo"
    );
    for row in rows {
        let m = &row.measured;
        let us = |ns: u64| ns as f64 / 1000.0;
        let cpu = m.cpu_us_per_op().map_or("-".to_owned(), |us| format!("{us:.1}"));
        let share =
            ratio(rows, row, baseline).map_or("-".to_owned(), |r| format!("{:.0} %", r * 100.0));
        let _ = writeln!(
            out,
            "{:<14} {:<7} {:>5} {:>10.0} {:>9} {:>8.1} {:>8.1} {:>9.1} {:>9.1} {:>8}",
            row.server,
            row.operation,
            row.connections,
            m.ops_per_second(),
            cpu,
            us(m.latencies.quantile(0.5)),
            us(m.latencies.quantile(0.99)),
            us(m.latencies.quantile(0.999)),
            us(m.latencies.max()),
            share,
        );
    }
    out
}

/// Requests per second relative to the baseline's.
pub(crate) fn ratio(rows: &[Row], row: &Row, baseline: &str) -> Option<f64> {
    let base = rows.iter().find(|b| {
        b.server == baseline && b.operation == row.operation && b.connections == row.connections
    })?;
    Some(row.measured.ops_per_second() / base.measured.ops_per_second())
}

/// Writes the table as JSON, one object per row.
pub(crate) fn write_json(path: &str, rows: &[Row], baseline: &str) -> Outcome {
    let mut out = String::from("[\n");
    for (index, row) in rows.iter().enumerate() {
        let m = &row.measured;
        let number = |v: Option<f64>| v.map_or("null".to_owned(), |v| format!("{v:.3}"));
        let _ = write!(
            out,
            "  {{\"server\": \"{}\", \"operation\": \"{}\", \"connections\": {}, \"seconds\": {:.3}, \
             \"operations\": {}, \"ops_per_second\": {:.1}, \"cpu_us_per_op\": {}, \"p50_ns\": {}, \
             \"p99_ns\": {}, \"p999_ns\": {}, \"max_ns\": {}, \"of_echo\": {}}}",
            row.server.replace(['"', '\\'], "_"),
            row.operation,
            row.connections,
            m.seconds,
            m.latencies.count(),
            m.ops_per_second(),
            number(m.cpu_us_per_op()),
            m.latencies.quantile(0.5),
            m.latencies.quantile(0.99),
            m.latencies.quantile(0.999),
            m.latencies.max(),
            number(ratio(rows, row, baseline)),
        );
        out.push_str(if index + 1 < rows.len() { ",\n" } else { "\n" });
    }
    out.push_str("]\n");
    fs::write(path, out).map_err(failed(path))
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn columns_are_aligned() {
        let rows = [["name", "ms"], ["a", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "name     ms\na     1,000\n");
    }
}
