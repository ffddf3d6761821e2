//! `nagi doctor`: arguments, and in which order things are done.

use std::io::Write as _;
use std::path::PathBuf;

use crate::report::Report;
use crate::{json, read, report};

const USAGE: &str = "\
nagi doctor [--dbpath DIR] [--json] [--quick] [--maxConns N]

  --dbpath DIR   the data folder (/data/db)
  --json         one JSON document instead of tables
  --quick        without the test of the disk, which takes a few seconds
  --maxConns N   connections the server shall hold (65536)

Exit code: 0 nothing or notes only, 1 warnings, 3 something critical, 2 wrong usage.
";

struct Arguments {
    folder: PathBuf,
    as_json: bool,
    is_quick: bool,
    connection_count_max: u64,
}

/// What wrong usage ends with.
const WRONG_USAGE: u8 = 2;

/// Runs `nagi doctor ARGS...` and returns the exit code.
pub fn run(args: &[String]) -> u8 {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        write_out(USAGE);
        return 0;
    }
    let arguments = match parse(args) {
        Ok(arguments) => arguments,
        Err(problem) => {
            // Nobody to tell if that fails.
            let _ = write!(std::io::stderr(), "nagi doctor: {problem}\n{USAGE}");
            return WRONG_USAGE;
        }
    };
    let mut facts = read::facts(Some(&arguments.folder), arguments.connection_count_max);
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
    // A closed pipe is the reader's wish.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        folder: "/data/db".into(),
        as_json: false,
        is_quick: false,
        connection_count_max: 65_536,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        let mut needed = || {
            let value = value.or_else(|| args.next().map(String::as_str));
            value.filter(|v| !v.is_empty()).ok_or_else(|| format!("{name} needs a value"))
        };
        match (name, value) {
            ("--json", None) => arguments.as_json = true,
            ("--quick", None) => arguments.is_quick = true,
            ("--dbpath", _) => arguments.folder = needed()?.into(),
            ("--maxConns", _) => {
                let value = needed()?;
                let count = value.parse().ok().filter(|n| (1..=1_000_000).contains(n));
                arguments.connection_count_max =
                    count.ok_or_else(|| format!("'{value}' is no number of connections"))?;
            }
            _ => return Err(format!("unrecognised argument '{arg}'")),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse =
            |args: &[&str]| parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let all = parse(&["--dbpath", "/d", "--json", "--quick", "--maxConns=5"]).unwrap();
        assert!(all.as_json && all.is_quick && all.connection_count_max == 5);
        assert_eq!(all.folder, PathBuf::from("/d"));
        for wrong in [&["--dbpath"][..], &["x"], &["--json=1"], &["--maxConns", "0"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
