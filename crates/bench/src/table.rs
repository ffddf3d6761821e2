//! The subcommands: one row each, with one file or folder each.
use crate::args::{Args, Outcome, did_you_mean};
use crate::{
    allocate, breadth, catalog, change_log, compression, contention, crash, disk, echo, embedded,
    encryption, growth, jsonbench, limit, memory, mixed, neighbours,
};
use crate::{query, raw_engine, spill, stall, statistics, streams, time_series, tls, working_set};

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
            "[--nagi PATH] [--peer-nagi PATH] [--dbpath DIR] [--documents N, 100000 to 100000000] [--rounds N]",
            "[--only TEXT] [--server-option=--NAME=VALUE]...",
            "[--bare true] the storage engine alone does the same work, all of it",
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
        name: "change-log",
        about: "what the change log of a replica set member costs: CPU of inserts and updates, bytes on disk",
        usage: &["[--nagi PATH] [--dbpath DIR] [--documents N] [--rounds N]"],
        run: change_log::run,
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
            "[--nagi PATH] --dbpath DIR [--rounds N] [--threads N] [--seed N] [--encrypted true|false]",
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
        usage: &["--port N --reply BYTES --mode threads|epoll|tls [--certificate FILE]"],
        run: echo::serve,
    },
    Row {
        name: "embedded",
        about: "point reads and inserts through a socket and in the library, and their ratio",
        usage: &["[--nagi PATH] [--dbpath DIR] [--documents N] [--operations N] [--rounds N]"],
        run: embedded::run,
    },
    Row {
        name: "encryption",
        about: "inserts, scans, reads, updates, an index build and starts with and without encryption at rest",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--operations N] [--rounds N] [--json FILE]",
            "[--server-option=--NAME=VALUE]...",
        ],
        run: encryption::run,
    },
    Row {
        name: "growth",
        about: "more nodes, stores and data over a TiKV cluster, in a simulation: rates and bottlenecks",
        usage: &[
            "[--parts inputs,sizes,lifts,catalog,rig] [--workloads point-reads,inserts-hashed,...]",
            "[--sizes NODESxSTORESxTERABYTES,...] [--clients N] [--operations N] [--seed N]",
        ],
        run: growth::run,
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
            "[--operations read,insert] [--connections 1,16] [--without-nagi true]",
            "[--uri NAME=mongodb://HOST:PORT]... [--peer-ferretdb PATH] [--json FILE]",
            "[--statistics true] instead: point reads with all statistics, and with $queryStats, beside those without",
        ],
        run: |args| match args.flag("statistics")? {
            true => statistics::run(args),
            false => limit::run(args),
        },
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
            "[--nagi PATH] [--dbpath DIR] [--documents N] [--runs N]",
            "[--server-option=--NAME=VALUE]... [--uri mongodb://HOST:PORT]",
            "[--beside updateMany|deleteMany|index|dump] [--beside-documents N]",
            "[--html FILE] [--json FILE]",
            "without --uri it first compares the server with the bare engine, which takes about a minute",
        ],
        run: stall::run,
    },
    Row {
        name: "streams",
        about: "how long after its commit an event reaches a change stream, with many streams open",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--streams 1,100,1000] [--watch own,same,id,field] [--inserts N] [--rate N]",
        ],
        run: streams::run,
    },
    Row {
        name: "time-series",
        about: "a time series beside a plain collection: inserts, bytes on disk, aggregations",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--measurements N] [--sensors 5,100,1000] [--clients N] [--rounds N]",
        ],
        run: time_series::run,
    },
    Row {
        name: "tls",
        about: "point reads over TLS beside plain ones, and beside a bare echo with and without TLS",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--seconds N] [--rounds N] [--documents N] [--connections 1,16]",
            "[--json FILE]",
        ],
        run: tls::run,
    },
    Row {
        name: "working-set",
        about: "uniform reads while the data outgrows the memory, on disks of several speeds",
        usage: &[
            "[--nagi PATH] [--dbpath DIR] [--memory-megabytes N] [--sizes 92,138,182,230] [--threads N]",
            "[--disks fast,5000,600,150] [--fs ext3|ext4|xfs] [--seconds N] [--warm-seconds N]",
            "[--server-option=--NAME=VALUE]... [--limits yes|no] [--uri NAME=mongodb://HOST:PORT]",
            "[--html FILE] [--json FILE]",
        ],
        run: working_set::run,
    },
];

impl Row {
    /// The names of its options, without dashes: a lower-case word after two dashes in its usage is an option.
    pub(crate) fn options(&self) -> Vec<&'static str> {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let names = self.usage.iter().flat_map(|line| line.split("--").skip(1));
        let names = names.map(|rest| &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())]);
        names.filter(|name| !name.is_empty()).collect()
    }
}

const DEFAULT_FOLDER: &str =
    "without --dbpath: a new folder in the system's temporary directory, removed at the end\n";

/// The usage of one subcommand, or of all.
pub(crate) fn usage(of: Option<&Row>) -> String {
    let mut text = String::new();
    let chosen = || TABLE.iter().filter(|row| of.is_none_or(|of| of.name == row.name));
    for row in chosen() {
        text.push_str(&format!("nagi-bench {}: {}\n", row.name, row.about));
        row.usage.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    if chosen().flat_map(|row| row.usage).any(|line| line.contains("[--dbpath DIR]")) {
        text.push_str(if of.is_some() { "    " } else { "\n" });
        text.push_str(DEFAULT_FOLDER);
    }
    text
}

/// The error about a subcommand that does not exist, and what there is.
pub(crate) fn unknown(name: &str) -> String {
    let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
    let mut text = format!("unknown command `{name}`{}\n", did_you_mean(name, &names, ""));
    for row in TABLE {
        text.push_str(&format!("    {:<12} {}\n", row.name, row.about));
    }
    text + "`nagi-bench COMMAND --help` lists the options of a command\n"
}

/// The arguments of a subcommand.
#[cfg(test)]
pub(crate) fn args(command: &str, args: &[&str]) -> Outcome<Args> {
    let row = TABLE.iter().find(|row| row.name == command).expect("a subcommand");
    Args::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), &row.options())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_tells_its_own_usage() {
        let (one, all) = (usage(TABLE.first()), usage(None));
        assert!(one.starts_with("nagi-bench allocate: ") && all.starts_with(&one[..50]));
        assert_eq!(
            (one.matches("removed at the end").count(), all.matches("removed at the end").count()),
            (1, 1)
        );
        assert!(!one.contains("nagi-bench stall") && all.contains("nagi-bench stall: "));
    }

    #[test]
    fn options_are_those_of_the_usage() {
        let row = TABLE.iter().find(|row| row.name == "crash").unwrap();
        let names = [
            "nagi",
            "dbpath",
            "rounds",
            "threads",
            "seed",
            "encrypted",
            "power-cut",
            "fs",
            "server-option",
        ];
        assert_eq!(row.options(), names);
    }

    #[test]
    fn an_unknown_command_has_a_suggestion() {
        let text = unknown("bredth");
        assert!(text.starts_with("unknown command `bredth`; did you mean `breadth`?\n"), "{text}");
        assert!(text.contains("\n    stall        one writer"), "{text}");
    }

    /// Every option that a subcommand reads is in its usage, so that it is not refused.
    #[test]
    fn every_option_that_is_read_is_in_the_usage() {
        for row in TABLE {
            let options = row.options();
            for text in sources(row) {
                let reads =
                    ["text", "all", "flag", "number", "number_in", "numbers_in", "word", "words"];
                let quoted = |call: &str| {
                    let begin = format!("args.{call}(\"");
                    text.split(begin.as_str())
                        .skip(1)
                        .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
                        .collect::<Vec<_>>()
                };
                let mut read: Vec<String> = reads.into_iter().flat_map(quoted).collect();
                for (code, names) in [
                    ("Scratch::new(", &["dbpath"][..]),
                    ("args.nagi()", &["nagi"]),
                    ("args.only(", &["only"]),
                    ("report::write(", &["html", "json"]),
                    ("text::write(", &["html", "json"]),
                ] {
                    let names = names.iter().filter(|_| text.contains(code));
                    read.extend(names.map(|name| (*name).to_owned()));
                }
                for name in &read {
                    assert!(options.contains(&name.as_str()), "{}: --{name}", row.name);
                }
            }
        }
    }

    /// The texts of a subcommand's files, without line breaks, so that calls over several lines are found.
    fn sources(row: &Row) -> Vec<String> {
        let source = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
        let name = row.name.replace('-', "_");
        let mut files = match row.name {
            // It starts within another subcommand's folder.
            "neighbour" => vec![source.join("neighbours/holder.rs")],
            _ => vec![source.join(format!("{name}.rs"))],
        };
        for entry in std::fs::read_dir(source.join(name)).into_iter().flatten() {
            files.push(entry.unwrap().path());
        }
        let is_of_row = |path: &std::path::PathBuf| {
            path.is_file() && (row.name != "neighbours" || !path.ends_with("holder.rs"))
        };
        files.retain(is_of_row);
        assert!(!files.is_empty(), "{}", row.name);
        let text = |path| std::fs::read_to_string(path).unwrap();
        files.iter().map(text).map(|text| text.split_whitespace().collect()).collect()
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}
