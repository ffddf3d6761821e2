//! The subcommands: one row each, one file or folder each.
use crate::args::{Args, Outcome};
use crate::{crash, echo, limit, stall};

/// A subcommand of `nagi bench`.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What it measures, in a line.
    pub(crate) about: &'static str,
    /// Its arguments, a line each.
    pub(crate) usage: &'static [&'static str],
    pub(crate) run: fn(&Args) -> Outcome,
}

/// Sorted by name.
pub(crate) static TABLE: &[Row] = &[
    Row {
        name: "crash",
        about: "kill -9 at random moments under concurrent writes; every acknowledged write is looked up",
        usage: &["[--nagi PATH] --dbpath DIR [--rounds N] [--threads N] [--seed N]"],
        run: crash::run,
    },
    Row {
        name: "echo",
        about: "the bare echo that others start as a process of its own",
        usage: &["--port N --reply BYTES --mode threads|epoll"],
        run: echo::serve,
    },
    Row {
        name: "limit",
        about: "point reads and inserts against a bare echo of the same frame sizes, and against peers",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--seconds N] [--rounds N] [--documents N]",
            "[--operations read,insert] [--connections 1,16]",
            "[--uri NAME=mongodb://HOST:PORT]... [--peer-ferretdb PATH] [--json FILE]",
        ],
        run: limit::run,
    },
    Row {
        name: "stall",
        about: "one writer and one counter: every moment at which either had to wait",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--runs N] [--uri mongodb://HOST:PORT]",
            "[--html FILE] [--json FILE]",
        ],
        run: stall::run,
    },
];

pub(crate) fn usage() -> String {
    let mut text = String::new();
    for row in TABLE {
        text.push_str(&format!("nagi bench {}: {}\n", row.name, row.about));
        row.usage.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}
