//! Parses `--name value` arguments, and defines the two ways a run can fail.
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// The reason a run failed.
#[derive(Debug)]
pub(crate) enum Problem {
    /// Wrong arguments: this text and then the usage are printed.
    Usage(String),
    /// An operation failed during the run.
    Failed(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Problem>;

/// Returns a function that wraps an error with a description of the operation that failed.
pub(crate) fn failed<E: Display>(doing: &str) -> impl FnOnce(E) -> Problem + '_ {
    move |e| Problem::Failed(format!("{doing}: {e}"))
}

/// The path of the running program, which also provides the subcommands `echo`, `neighbour` and `raw-engine`.
pub(crate) fn self_program() -> Outcome<PathBuf> {
    std::env::current_exe().map_err(failed("finding this program"))
}

/// Pairs of name and value, in order; a name may occur more than once.
#[derive(Debug)]
pub(crate) struct Args(Vec<(String, String)>);

impl Args {
    pub(crate) fn parse(args: &[String]) -> Outcome<Args> {
        let mut pairs = Vec::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let name = arg
                .strip_prefix("--")
                .ok_or_else(|| Problem::Usage(format!("unexpected argument `{arg}`\n")))?;
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let value = rest
                        .next()
                        .ok_or_else(|| Problem::Usage(format!("`--{name}` needs a value\n")))?;
                    (name, value.clone())
                }
            };
            pairs.push((name.to_owned(), value));
        }
        Ok(Args(pairs))
    }

    /// The last value of `name`.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Every value of `name`, in order.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The value of `name` as a number, or the default if `name` is absent.
    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Outcome<T> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| Problem::Usage(format!("`--{name} {text}` is not a number\n"))),
        }
    }

    /// The server's binary: `--nagi`, or else `nagi` in the folder of the running program.
    pub(crate) fn nagi(&self) -> Outcome<PathBuf> {
        match self.text("nagi") {
            Some(path) => Ok(PathBuf::from(path)),
            None => Ok(self_program()?.with_file_name("nagi")),
        }
    }
}
