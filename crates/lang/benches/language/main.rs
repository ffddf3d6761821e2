//! The cost of the language per document of 1 KB. Run all rows with `make bench-lang`, or those whose name contains a
//! word with `make bench-lang ARGS=filter`.
//!
//! Each row performs one task with two implementations, from the bytes of a document to the bytes of an answer: with
//! this crate, and with owned documents of the `bson` crate (parsed from the bytes, processed by code written for
//! this row, and serialized again). The run stops if the answers differ. The two sides alternate in short rounds. A
//! figure is the fastest of its rounds, because other load on a shared machine can only make a round slower.
//! Allocations are counted by the allocator of `testkit`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod documents;
mod expressions;
mod filters;
mod measure;
mod owned;
mod projections;
mod updates;

use nagi_testkit::CountingAllocator;

use measure::{Figures, Row};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The minimal speedup over owned documents for every row.
const TIMES_MIN: f64 = 5.0;

/// A part of the language and its rows.
type Section = (&'static str, fn() -> Vec<Row>);

fn main() {
    // Cargo passes "--bench"; other arguments select rows.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let documents = documents::set();
    let sizes = documents.iter().map(|d| d.as_doc().len());
    println!(
        "{} documents of {} fields and {} to {} bytes; ns and allocations a document\n",
        documents.len(),
        documents[0].as_doc().count(),
        sizes.clone().min().unwrap_or(0),
        sizes.max().unwrap_or(0),
    );
    println!("{:>9} {:>7} {:>9} {:>7} {:>7}", "nagi ns", "allocs", "bson ns", "allocs", "times");
    let mut missed = Vec::new();
    let sections: [Section; 4] = [
        ("filter", filters::rows),
        ("projection", projections::rows),
        ("update", updates::rows),
        ("expression", expressions::rows),
    ];
    for (section, rows) in sections {
        for mut row in rows() {
            let name = format!("{section}: {}", row.name);
            if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word)) {
                continue;
            }
            let figures = measure::run(&mut row, &documents);
            print(&name, &row, &figures);
            if figures.times() < TIMES_MIN || row.aim_ns.is_some_and(|aim| figures.ours.ns > aim) {
                missed.push(name);
            }
        }
    }
    match missed.as_slice() {
        [] => println!("\nevery row is at least {TIMES_MIN} times as fast, and within its aim"),
        missed => println!("\nmissed ({TIMES_MIN} times, or the aim):\n  {}", missed.join("\n  ")),
    }
}

fn print(name: &str, row: &Row, figures: &Figures) {
    let aim = row.aim_ns.map_or(String::new(), |aim| format!("  (aim: {aim} ns)"));
    println!(
        "{:9.1} {:7.1} {:9.1} {:7.1} {:7.1}  {name}{aim}",
        figures.ours.ns,
        figures.ours.allocations,
        figures.owned.ns,
        figures.owned.allocations,
        figures.times(),
    );
}
