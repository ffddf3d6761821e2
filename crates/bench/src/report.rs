//! Tables for people and JSON for programs.
use crate::args::{Args, Outcome, failed};
use crate::histogram::Histogram;
use crate::html::Page;
use crate::load::Measured;
use nagi_bson::json::JsonWriter;
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
    let out = JsonWriter::file(|w| {
        w.rows(0, rows, |w, row| w.object(|w| put_row(w, row, ratio(rows, row, baseline))));
    });
    fs::write(path, out).map_err(failed(path))
}

fn put_row(w: &mut JsonWriter<'_>, row: &Row, of_echo: Option<f64>) {
    let m = &row.measured;
    w.key("server").string(&plain_name(&row.server));
    w.key("operation").string(row.operation);
    w.key("connections").literal(row.connections);
    w.key("seconds").fixed(m.seconds, 3);
    w.key("operations").literal(m.latencies.count());
    w.key("ops_per_second").fixed(m.ops_per_second(), 1);
    w.key("cpu_us_per_op").fixed_or_null(m.cpu_us_per_op(), 3);
    put_quantiles(w, &m.latencies);
    w.key("of_echo").fixed_or_null(of_echo, 3);
}

/// The quantiles that most reports have, in nanoseconds.
pub(crate) fn put_quantiles(w: &mut JsonWriter<'_>, of: &Histogram) {
    w.key("p50_ns").literal(of.quantile(0.5));
    w.key("p99_ns").literal(of.quantile(0.99));
    w.key("p999_ns").literal(of.quantile(0.999));
    w.key("max_ns").literal(of.max());
}

/// A name as results have it, so that they can be searched for it: without quotes and backslashes.
pub(crate) fn plain_name(name: &str) -> String {
    name.replace(['"', '\\'], "_")
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
