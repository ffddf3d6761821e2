//! The subcommands: one row each, with one file or folder each.
use crate::args::{Args, Outcome};
use crate::{
    allocate, breadth, catalog, compression, contention, crash, disk, echo, jsonbench, limit,
    memory, mixed, neighbours,
};
use crate::{query, raw_engine, spill, stall, working_set};

/// A subcommand of `nagi-bench`.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// One line that says what it measures.
    pub(crate) about: &'static str,
    /// Its arguments, one per line.
    pub(crate) usage: &'static [&'static str],
    pub(crate) run: fn(&Args) -> Outcome,
}

/// Sorted by name.
pub(crate) static TABLE: &[Row] = &[
    Row {
        name: "allocate",
        about: "how long the file system takes to hand out room for data files of 16 MB to 2 GB",
        usage: &["[--dbpath DIR] [--scale DIVISOR] [--html FILE] [--json FILE]"],
        run: allocate::run,
    },
    Row {
        name: "breadth",
        about: "every kind of operation beside an older binary, and by that beside MongoDB",
        usage: &[
            "[--nagi PATH] [--peer-nagi PATH] [--dbpath DIR] [--documents N] [--rounds N]",
            "[--only TEXT] [--server-option=--NAME=VALUE]...",
            "[--bare true] the storage engine alone does the same work",
            "[--count true] instructions for a document, in valgrind; [--perf DIR] recordings for bench/flames.sh",
        ],
        run: breadth::run,
    },
    Row {
        name: "catalog",
        about: "what a new collection costs, and a start, with many collections",
        usage: &[
            "[--nagi PATH] [--peer-nagi PATH] [--dbpath DIR] [--collections 1000,12000,100000]",
        ],
        run: catalog::run,
    },
    Row {
        name: "compression",
        about: "large documents under each compressor: time to insert and to read, size on disk, memory",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--characters N] [--text digits|words]",
            "[--compressors none,snappy,zlib,zstd,lz4] [--cache-gigabytes N]",
            "[--uri mongodb://HOST:PORT] [--html FILE] [--json FILE]",
        ],
        run: compression::run,
    },
    Row {
        name: "contention",
        about: "writes to cache lines that cores share, by operation, and what a second core gives",
        usage: &["[--nagi PATH] [--counting PATH] [--dbpath DIR] [--operations N]"],
        run: contention::run,
    },
    Row {
        name: "crash",
        about: "kill -9 at random moments under concurrent writes; every acknowledged write is looked up",
        usage: &[
            "[--nagi PATH] --dbpath DIR [--rounds N] [--threads N] [--seed N]",
            "[--power-cut N [--fs ext4,xfs,ext3]] [--server-option=--NAME=VALUE]...   (cuts need root)",
        ],
        run: crash::run,
    },
    Row {
        name: "disk",
        about: "what the disk gives past every cache: random reads, syncs, both ways in sequence",
        usage: &[
            "[--dbpath DIR] [--megabytes N] [--seconds N] [--threads N] [--html FILE] [--json FILE]",
        ],
        run: disk::run,
    },
    Row {
        name: "echo",
        about: "the bare echo that others start as a process of its own",
        usage: &["--port N --reply BYTES --mode threads|epoll"],
        run: echo::serve,
    },
    Row {
        name: "jsonbench",
        about: "the five questions of JSONBench over made-up events, with and without an index",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--rounds N] [--server-option=--NAME=VALUE]...",
            "[--uri NAME=mongodb://HOST:PORT]... [--peer-ferretdb PATH] [--json FILE]",
        ],
        run: jsonbench::run,
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
        name: "memory",
        about: "resident memory against its bound while large documents go through every kind of work",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--characters N] [--caches 1,2]",
            "[--connections N] [--server-option=--NAME=VALUE]... [--uri mongodb://HOST:PORT --pid N]",
            "[--html FILE] [--json FILE]",
        ],
        run: memory::run,
    },
    Row {
        name: "mixed",
        about: "reads and updates half and half while compaction runs: windows of a tenth of a second",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--seconds N] [--warm-seconds N] [--threads N]",
            "[--server-option=--NAME=VALUE]... [--uri mongodb://HOST:PORT] [--html FILE] [--json FILE]",
        ],
        run: mixed::run,
    },
    Row {
        name: "neighbour",
        about: "the process holding memory that `neighbours` starts as a process of its own",
        usage: &["--port N --megabytes N"],
        run: neighbours::serve,
    },
    Row {
        name: "neighbours",
        about: "what a scan of everything does to another process in the same limited memory",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--characters N] [--text digits|random]",
            "[--memory-megabytes N] [--neighbour-megabytes N] [--cache-gigabytes N]",
            "[--server-option=--NAME=VALUE]... [--html FILE] [--json FILE]   (needs root)",
        ],
        run: neighbours::run,
    },
    Row {
        name: "query",
        about: "scans, groups, sorts, joins, text and index builds beside the bare engine and a peer",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--rounds N] [--seconds N] [--only TEXT]",
            "[--peer-ferretdb PATH] [--peer-documents N] [--uri NAME=mongodb://HOST:PORT]...",
            "[--server-option=--NAME=VALUE]... [--html FILE] [--json FILE]",
        ],
        run: query::run,
    },
    Row {
        name: "raw-engine",
        about: "the storage engine behind a bare socket, which others start as a process of its own",
        usage: &["--dbpath DIR --port N [--mode queries] [--cache-megabytes N]"],
        run: raw_engine::run,
    },
    Row {
        name: "spill",
        about: "a sort and a group of far more than the memory at hand, each result checked",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--memory-megabytes N] [--cache-gigabytes N]",
            "[--server-option=--NAME=VALUE]... [--json FILE]   (the limit needs root)",
        ],
        run: spill::run,
    },
    Row {
        name: "stall",
        about: "one writer and one counter: every moment at which either had to wait",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--runs N]
    [--server-option=--NAME=VALUE]... [--uri mongodb://HOST:PORT]",
            "[--beside updateMany|deleteMany|index|dump] [--beside-documents N]",
            "[--html FILE] [--json FILE]",
        ],
        run: stall::run,
    },
    Row {
        name: "working-set",
        about: "uniform reads while the data outgrows the memory, on disks of several speeds",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--memory-megabytes N] [--sizes 92,138,182,230] [--threads N]",
            "[--disks fast,5000,600,150] [--fs ext3|ext4|xfs] [--seconds N] [--warm-seconds N]",
            "[--server-option=--NAME=VALUE]... [--limits no] [--uri NAME=mongodb://HOST:PORT]",
            "[--html FILE] [--json FILE]",
        ],
        run: working_set::run,
    },
];

/// The usage of one subcommand, or of all.
pub(crate) fn usage(of: Option<&Row>) -> String {
    let mut text = String::new();
    for row in TABLE.iter().filter(|row| of.is_none_or(|of| of.name == row.name)) {
        text.push_str(&format!("nagi-bench {}: {}\n", row.name, row.about));
        row.usage.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_tells_its_own_usage() {
        let (one, all) = (usage(TABLE.first()), usage(None));
        assert!(one.starts_with("nagi-bench allocate: ") && all.starts_with(&one));
        assert!(!one.contains("nagi-bench stall") && all.contains("nagi-bench stall: "));
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}
