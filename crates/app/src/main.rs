//! The program `nagi`: flags and configuration file, choice of the engine, start and stop.
//!
//!   nagi [serve] [mongod's options]      nagi doctor ...      nagi version
//!   nagi backup ...                      nagi restore ...
//!
//! Does not know about: commands, documents, frames.

mod backup;
mod build;
mod connections;
mod doctor;
mod engine;
mod failure;
mod fork;
mod key_file;
mod local_zone;
mod lock;
mod memory;
mod options;
mod paths;
mod pid_file;
mod record;
mod repair;
mod serve;
mod signals;
mod umask;
mod warnings;

use std::process::ExitCode;

use nagi_budget::Metered;
use tikv_jemallocator::Jemalloc;

/// For Rust and C++ alike; the meter sees what Rust takes.
#[global_allocator]
static ALLOCATOR: Metered<Jemalloc> = Metered(Jemalloc);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let command = args.first().map(String::as_str);
    if matches!(command, Some("backup" | "restore" | "doctor")) {
        umask::close();
    }
    match command {
        Some("backup") => backup::run(&args[1..]),
        Some("restore") => backup::run_restore(&args[1..]),
        Some("doctor") => doctor::run(&args[1..]),
        Some("version") => {
            if let Some(more) = args.get(1) {
                say(&format!("nagi version takes no arguments, not '{more}'"));
                return ExitCode::from(2);
            }
            build::print_version();
            ExitCode::SUCCESS
        }
        Some("serve") => serve::run(&args[1..]),
        None => serve::run(&[]),
        Some(flag) if flag.starts_with('-') => serve::run(&args),
        Some(other) => {
            say(&format!(
                "unknown command '{other}'; there are serve, backup, restore, doctor and version"
            ));
            ExitCode::from(2)
        }
    }
}

/// One line on standard error, for the time before there is a log.
fn say(text: &str) {
    use std::io::Write;
    // No one to tell if that fails.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Text on standard output: what was requested with a flag.
fn print(text: &str) {
    use std::io::Write;
    // A closed pipe is the reader's wish.
    let _ = writeln!(std::io::stdout(), "{text}");
}
