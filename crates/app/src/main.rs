//! The program `nagi`: reads flags and the configuration file, selects the storage engine, starts and stops the server.
//!
//! ```text
//!   nagi [serve] [mongod's options]      nagi doctor ...      nagi version
//!   nagi backup ...                      nagi restore ...      nagi help ...
//!   nagi generate ...                    nagi ping ...
//!   nagi diagnostics ...                 nagi advise ...
//!   nagi copy ...
//! ```
//!
//! This crate knows neither commands nor documents nor frames.

mod allocator;
mod backup;
mod build;
mod connections;
mod console;
mod copy;
mod doctor;
mod door;
mod encryption;
mod engine;
mod erase;
mod exposure;
mod failure;
mod flag;
mod folder;
mod fork;
mod help;
mod key_file;
mod ldap;
mod ldap_check;
mod local_zone;
mod mechanisms;
mod memory;
mod notify;
mod options;
mod paths;
mod pid_file;
mod record;
mod remote;
mod repair;
mod serve;
mod server_config;
mod shown;
mod signals;
mod takeover;
mod telemetry;
mod transport;
mod umask;
mod warnings;

use std::process::ExitCode;

use failure::exit;
use nagi_budget::Metered;
use tikv_jemallocator::Jemalloc;

/// The allocator of both Rust and C++ code; the meter counts only Rust's allocations.
#[global_allocator]
static ALLOCATOR: Metered<Jemalloc> = Metered(Jemalloc);

fn main() -> ExitCode {
    signals::note_rotation();
    let args: Vec<String> = std::env::args().skip(1).collect();
    erase::passwords();
    let command = args.first().map(String::as_str);
    if matches!(
        command,
        Some("advise" | "backup" | "copy" | "restore" | "diagnostics" | "ldap-check" | "ping")
    ) {
        remote::password::take_variables();
    }
    if matches!(command, Some("backup" | "restore" | "diagnostics" | "doctor")) {
        umask::close();
    }
    if let Some(
        name @ ("advise" | "backup" | "copy" | "restore" | "diagnostics" | "doctor" | "generate"
        | "ldap-check" | "ping" | "version"),
    ) = command
        && args[1..].iter().any(|arg| arg == "--help" || arg == "-h")
    {
        return help::command(name);
    }
    match command {
        Some("advise") => backup::run_advise(&args[1..]),
        Some("backup") => backup::run(&args[1..]),
        Some("copy") => copy::run(&args[1..]),
        Some("restore") => backup::run_restore(&args[1..]),
        Some("diagnostics") => backup::run_diagnostics(&args[1..]),
        Some("doctor") => doctor::run(&args[1..]),
        Some("generate") => help::generate(&args[1..]),
        Some("help") => help::run(&args[1..]),
        Some("ldap-check") => ldap_check::run(&args[1..]),
        Some("ping") => backup::run_ping(&args[1..]),
        Some("version") => version(&args[1..]),
        Some("serve") => serve::run(&args[1..]),
        Some("--help" | "-h") => help::overview(),
        None => serve::run(&[]),
        Some(flag) if flag.starts_with('-') => serve::run(&args),
        Some(other) => unknown(other),
    }
}

/// Runs `nagi version`.
fn version(args: &[String]) -> ExitCode {
    match args.first() {
        None => {
            build::print_version();
            ExitCode::SUCCESS
        }
        Some(more) => {
            say(&format!("nagi version takes no arguments, not '{more}'"));
            ExitCode::from(exit::BAD_OPTIONS)
        }
    }
}

fn unknown(command: &str) -> ExitCode {
    say(&format!(
        "unknown command '{command}'{}; nagi help lists the commands and options",
        help::meant_command(command)
    ));
    ExitCode::from(exit::BAD_OPTIONS)
}

/// Prints a message to standard error, for messages before there is a log.
fn say(text: &str) {
    use std::io::Write;
    // A failure cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", shown::of(text));
}

/// Prints text that a flag requested to standard output.
fn print(text: &str) {
    use std::io::Write;
    if let Err(error) = writeln!(std::io::stdout(), "{text}")
        // A closed pipe means that the reader does not want more.
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        say(&format!("standard output: {error}"));
        std::process::exit(i32::from(exit::FAILURE));
    }
}
