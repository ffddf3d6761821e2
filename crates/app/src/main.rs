//! The program `nagi`: reads flags and the configuration file, selects the storage engine, starts and stops the server.
//!
//! ```text
//!   nagi [serve] [mongod's options]      nagi doctor ...      nagi version
//!   nagi backup ...                      nagi restore ...      nagi help
//! ```
//!
//! This crate knows neither commands nor documents nor frames.

mod backup;
mod build;
mod connections;
mod doctor;
mod engine;
mod failure;
mod folder;
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

/// The allocator of both Rust and C++ code; the meter counts only Rust's allocations.
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
        Some("help") => help(args.get(1).map(String::as_str)),
        Some("version") => {
            if args.iter().any(|arg| arg == "--help" || arg == "-h") {
                print("nagi version: prints the version of this program");
                return ExitCode::SUCCESS;
            }
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
        Some(other) => unknown(other),
    }
}

/// Prints the help of a command, or of all.
fn help(command: Option<&str>) -> ExitCode {
    match command {
        None | Some("serve") => print(&options::help()),
        Some("backup" | "restore") => print(backup::HELP),
        Some("doctor") => return doctor::run(&["--help".to_owned()]),
        Some("version") => print("nagi version: prints the version of this program"),
        Some(other) => return unknown(other),
    }
    ExitCode::SUCCESS
}

fn unknown(command: &str) -> ExitCode {
    let meant = match command {
        "repair" => {
            "; a data directory is repaired by 'nagi serve --repair --dbpath DIR'".to_owned()
        }
        _ => options::meant_command(command),
    };
    say(&format!("unknown command '{command}'{meant}; nagi help lists the commands and options"));
    ExitCode::from(2)
}

/// Prints one line to standard error, for messages before there is a log.
fn say(text: &str) {
    use std::io::Write;
    // A failure cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints text that a flag requested to standard output.
fn print(text: &str) {
    use std::io::Write;
    // A closed pipe means that the reader does not want more.
    let _ = writeln!(std::io::stdout(), "{text}");
}
