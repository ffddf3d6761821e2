//! `nagi bench`: load over the wire, and the limits of the machine beside it.
//!
//!   limit   point reads and inserts against a bare echo of the same frame sizes, and against peers
//!   stall   one writer and one counter: every moment at which either had to wait
//!   crash   kill -9 at random moments under concurrent writes; every acknowledged write is looked up
//!   echo    the echo server itself (started by `limit` as a process of its own)
//!
//! Links nothing of the server: any server that speaks MongoDB's wire protocol can be measured with the
//! same program. Blocking sockets, a thread per connection, latencies in fixed-size histograms.
//!
//! Does not know about: commands beyond the few it sends, engines, the server's code.
mod args;
mod client;
mod crash;
mod echo;
mod histogram;
mod html;
mod limit;
mod load;
mod process;
mod progress;
mod random;
mod report;
mod stall;
mod timeline;

use std::io::Write as _;

const USAGE: &str = "\
nagi bench limit [--nagi PATH] [--dbpath DIR] [--seconds N] [--rounds N] [--documents N]
                 [--operations read,insert] [--connections 1,16]
                 [--uri NAME=mongodb://HOST:PORT]... [--peer-ferretdb PATH] [--json FILE]
nagi bench stall [--nagi PATH] [--dbpath DIR] [--documents N] [--runs N] [--uri mongodb://HOST:PORT]
                 [--html FILE] [--json FILE]
nagi bench crash [--nagi PATH] --dbpath DIR [--rounds N] [--threads N] [--seed N]
";

/// Runs `nagi bench ARGS...` and returns the exit status: 0, 1 if a check failed, 2 for wrong usage.
pub fn run(args: &[String]) -> i32 {
    let outcome = match args.first().map(String::as_str) {
        Some("limit") => args::Args::parse(&args[1..]).and_then(|a| limit::run(&a)),
        Some("stall") => args::Args::parse(&args[1..]).and_then(|a| stall::run(&a)),
        Some("crash") => args::Args::parse(&args[1..]).and_then(|a| crash::run(&a)),
        Some("echo") => args::Args::parse(&args[1..]).and_then(|a| echo::serve(&a)),
        _ => Err(args::Problem::Usage(String::new())),
    };
    match outcome {
        Ok(()) => 0,
        Err(args::Problem::Usage(text)) => {
            let _ = write!(std::io::stderr(), "{text}{USAGE}");
            2
        }
        Err(args::Problem::Failed(text)) => {
            let _ = writeln!(std::io::stderr(), "nagi bench: {text}");
            1
        }
    }
}
