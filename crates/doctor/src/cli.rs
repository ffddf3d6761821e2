//! `nagi doctor`: parses the arguments and runs the steps in order.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::exposure::Exposure;
use crate::facts::DataFiles;
use crate::report::Report;
use crate::{json, read, report};

/// An option of `nagi doctor`.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// With dashes.
    pub name: &'static str,
    /// The short form with its dash; empty if there is none.
    pub short: &'static str,
    /// The placeholder of the value; empty for an option without a value.
    pub value: &'static str,
    /// What applies without the option.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

const fn flag(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Flag {
    Flag { name, short: "", value, default, meaning }
}

/// The options.
#[rustfmt::skip]
pub static FLAGS: &[Flag] = &[
    Flag { short: "-f", ..flag("--config", "file", "none",
        "configuration file of the server: data directory, connections, memory, direct I/O") },
    flag("--dbpath", "directory", "that of --config, or /data/db", "data directory"),
    flag("--json", "", "off", "print one JSON document instead of tables"),
    flag("--quick", "", "off", "leave out the test of the disk, which takes a few seconds"),
    flag("--maxConns", "connections", "that of --config, or 65536", "connections that the server must support"),
    Flag { short: "-h", ..flag("--help", "", "off", "print the help and exit") },
];

/// The server's defaults, which apply if no option overrides them.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The data directory.
    pub folder: PathBuf,
    /// Maximum number of concurrent connections.
    pub connection_count_max: u64,
    /// Memory budget of the server.
    pub budget_bytes: u64,
    /// The server reads data files through the page cache: `storage.directIO: false`, or a mapped file.
    pub reads_through_cache: bool,
    /// Access to the server; none without a configuration file.
    pub exposure: Option<Exposure>,
}

struct Arguments {
    folder: PathBuf,
    as_json: bool,
    is_quick: bool,
    connection_count_max: u64,
    budget_bytes: u64,
    reads_through_cache: bool,
    exposure: Option<Exposure>,
}

/// Exit code for wrong usage.
const WRONG_USAGE: u8 = 2;

/// Runs `nagi doctor ARGS...` and returns the exit code. `read_config` returns the defaults, from the
/// configuration file if one is named. `examine` compares the files of a data directory. `meant` returns a text that
/// suggests the most similar of the known names. The program prints the help, from [`FLAGS`].
pub fn run(
    args: &[String],
    read_config: impl Fn(Option<&str>) -> Result<Defaults, String>,
    examine: impl Fn(&Path) -> DataFiles,
    meant: impl Fn(&str, &[&str]) -> String,
) -> u8 {
    let arguments = match parse(args, &read_config, &meant) {
        Ok(arguments) => arguments,
        Err(problem) => {
            // A failure to print the problem cannot be reported.
            let _ = writeln!(std::io::stderr(), "nagi doctor: {problem}");
            return WRONG_USAGE;
        }
    };
    let mut facts = read::facts(
        Some(&arguments.folder),
        arguments.connection_count_max,
        arguments.budget_bytes,
    );
    facts.reads_through_cache = arguments.reads_through_cache;
    facts.exposure = arguments.exposure;
    if facts.data.as_ref().is_some_and(|data| data.is_there) {
        facts.data_files = Some(examine(&arguments.folder));
    }
    if !arguments.is_quick {
        read::measure(&mut facts);
    }
    let report = Report::of(&facts);
    match arguments.as_json {
        true => write_out(&format!("{}\n", json::print(&facts, &report))),
        false => write_out(&report::print(&facts, &report)),
    }
    report.exit_code()
}

fn write_out(text: &str) {
    // A closed pipe is not an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn parse(
    args: &[String],
    read_config: &dyn Fn(Option<&str>) -> Result<Defaults, String>,
    meant: &dyn Fn(&str, &[&str]) -> String,
) -> Result<Arguments, String> {
    let wrong = |problem: String| format!("{problem}\ntry 'nagi help doctor' for more information");
    let (mut as_json, mut is_quick) = (false, false);
    let (mut config, mut folder, mut connections) = (None, None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        let mut needed = || {
            let value = value.or_else(|| args.next().map(String::as_str));
            value.filter(|v| !v.is_empty()).ok_or_else(|| {
                let flag = FLAGS.iter().find(|flag| flag.name == name || flag.short == name);
                let value = flag.map_or("value", |flag| flag.value);
                wrong(format!("{name} needs a value: {name} <{value}>"))
            })
        };
        match (name, value) {
            ("--json", None) => as_json = true,
            ("--quick", None) => is_quick = true,
            ("-f" | "--config", _) => config = Some(needed()?),
            ("--dbpath", _) => folder = Some(PathBuf::from(needed()?)),
            ("--maxConns", _) => {
                let value = needed()?;
                let count = value.parse().ok().filter(|n| (1..=1_000_000).contains(n));
                let problem = || {
                    wrong(format!(
                        "{name} has the bad value '{value}': expected an integer from 1 to 1000000"
                    ))
                };
                connections = Some(count.ok_or_else(problem)?);
            }
            ("--json" | "--quick", Some(_)) => return Err(wrong(format!("{name} takes no value"))),
            _ => {
                let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
                let meant = meant(name, &names);
                return Err(wrong(format!("unrecognised argument '{arg}'{meant}")));
            }
        }
    }
    let defaults = read_config(config)?;
    Ok(Arguments {
        folder: folder.unwrap_or(defaults.folder),
        as_json,
        is_quick,
        connection_count_max: connections.unwrap_or(defaults.connection_count_max),
        budget_bytes: defaults.budget_bytes,
        reads_through_cache: defaults.reads_through_cache,
        exposure: defaults.exposure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let config = |file: Option<&str>| match file {
            Some("missing") => Err("Error opening config file".to_owned()),
            file => {
                let folder = file.map_or("/data/db", |_| "/from/file").into();
                Ok(Defaults {
                    folder,
                    connection_count_max: 7,
                    budget_bytes: 0,
                    reads_through_cache: false,
                    exposure: None,
                })
            }
        };
        let parse = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
            parse(&args, &config, &|_, _| "; meant".to_owned())
        };
        let all = parse(&["--dbpath", "/d", "--json", "--quick", "--maxConns=5"]).unwrap();
        assert!(all.as_json && all.is_quick && all.connection_count_max == 5);
        assert_eq!(all.folder, PathBuf::from("/d"));
        let from_file = parse(&["-f", "x"]).unwrap();
        assert_eq!(from_file.folder, PathBuf::from("/from/file"));
        assert_eq!(from_file.connection_count_max, 7);
        assert_eq!(parse(&["--config=x", "--dbpath=/d"]).unwrap().folder, PathBuf::from("/d"));
        assert_eq!(parse(&[]).unwrap().folder, PathBuf::from("/data/db"));
        let missing = parse(&["-f", "missing"]).err();
        assert_eq!(missing.as_deref(), Some("Error opening config file"));
        for wrong in [&["-f"][..], &["--dbpath"], &["x"], &["--json=1"], &["--maxConns", "0"]] {
            let problem = parse(wrong).err().unwrap_or_default();
            assert!(problem.ends_with("try 'nagi help doctor' for more information"), "{problem}");
        }
        let unknown = parse(&["--quik"]).err().unwrap_or_default();
        assert!(unknown.starts_with("unrecognised argument '--quik'; meant\n"), "{unknown}");
    }
}
