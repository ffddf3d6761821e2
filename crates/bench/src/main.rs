//! `nagi-bench`: applies load over the wire protocol and measures it against the limits of the machine.
//!
//! The subcommands are listed in a table ([`table`]); each has one file or folder.
//!
//! The program can measure any server that speaks MongoDB's wire protocol. Of Nagi it links only the storage
//! engine, for `raw-engine`, and the library, for `embedded`. It uses blocking sockets, one thread per connection and
//! fixed-size histograms of latencies.
//!
//! Does not know about: commands beyond the few it sends, engines, the server's code.
mod allocate;
mod args;
mod breadth;
mod catalog;
mod change_log;
mod chart;
mod client;
mod compression;
mod contention;
mod crash;
mod disk;
mod echo;
mod embedded;
mod encryption;
mod growth;
mod histogram;
mod html;
mod inserts;
mod jsonbench;
mod limit;
mod load;
mod master_key;
mod memory;
mod mixed;
mod neighbours;
mod pauses;
mod process;
mod progress;
mod query;
mod random;
mod raw_engine;
mod report;
mod resident;
mod spill;
mod stall;
mod statistics;
mod streams;
mod table;
mod time_series;
mod timeline;
mod tls;
mod working_set;
mod ycsb;

use std::{io::Write as _, process::ExitCode};

use nagi_budget::Metered;
use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use tikv_jemallocator::Jemalloc;

/// The server's allocator, so that the raw engine allocates as the server does.
#[global_allocator]
static ALLOCATOR: Metered<Jemalloc> = Metered(Jemalloc);

/// Runs a subcommand. The exit status is 0, 1 if a check failed, or 2 for wrong usage.
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    raise_descriptor_limit();
    ExitCode::from(run(&args))
}

/// Raises the limit of file descriptors to the permitted maximum: every connection and every data file needs
/// one.
fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        let _ = writeln!(std::io::stderr(), "nagi-bench: raising the limit of open files: {error}");
    }
}

fn run(args: &[String]) -> u8 {
    let row = args.first().and_then(|name| table::TABLE.iter().find(|row| row.name == *name));
    if args.iter().any(|arg| ["--help", "-h"].contains(&arg.as_str())) {
        return u8::from(write!(std::io::stdout(), "{}", table::usage(row)).is_err());
    }
    let outcome = match (row, args.first()) {
        (Some(row), _) => {
            args::Args::parse(&args[1..], &row.options()).and_then(|args| (row.run)(&args))
        }
        (None, Some(name)) => {
            let _ = write!(std::io::stderr(), "{}", table::unknown(name));
            return 2;
        }
        (None, None) => Err(args::Problem::Usage(String::new())),
    };
    match outcome {
        Ok(()) => 0,
        Err(args::Problem::Usage(text)) => {
            let _ = write!(std::io::stderr(), "{text}{}", table::usage(row));
            2
        }
        Err(args::Problem::Failed(text)) => {
            let _ = writeln!(std::io::stderr(), "nagi-bench: {text}");
            1
        }
    }
}
