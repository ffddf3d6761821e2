//! Parses `--name value` arguments, and defines the two ways a run can fail.
use std::fmt::Display;
use std::ops::RangeInclusive as Range;
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
    /// Parses the arguments of a command that has the options `known`.
    pub(crate) fn parse(args: &[String], known: &[&str]) -> Outcome<Args> {
        let mut pairs = Vec::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let name = arg
                .strip_prefix("--")
                .ok_or_else(|| wrong(format!("unexpected argument `{arg}`")))?;
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            if !known.contains(&name) {
                let meant = did_you_mean(name, known, "--");
                return Err(wrong(format!("unknown option `--{name}`{meant}")));
            }
            let value = value.or_else(|| rest.next().map(String::as_str));
            let value = value.ok_or_else(|| wrong(format!("`--{name}` needs a value")))?;
            pairs.push((name.to_owned(), value.to_owned()));
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

    /// The value of `name`, true or false; false if `name` is absent.
    pub(crate) fn flag(&self, name: &str) -> Outcome<bool> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(wrong(format!("`--{name} {text}` is neither true nor false"))),
        }
    }

    /// The value of `name` as a number, or the default if `name` is absent.
    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Outcome<T> {
        self.text(name).map_or(Ok(default), |text| number(name, text))
    }

    /// The same with a range, which includes both ends.
    pub(crate) fn number_in<T>(&self, name: &str, default: T, range: Range<T>) -> Outcome<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        match self.text(name) {
            // A default may be outside if the range depends on another option.
            None => within(name, &default.to_string(), &range),
            Some(text) => within(name, text, &range),
        }
    }

    /// The value of `name` as a list of numbers, separated by commas.
    pub(crate) fn numbers_in<T>(
        &self,
        name: &str,
        default: &str,
        range: Range<T>,
    ) -> Outcome<Vec<T>>
    where
        T: FromStr + PartialOrd + Display,
    {
        let texts = self.text(name).unwrap_or(default).split(',');
        texts.map(|text| within(name, text, &range)).collect()
    }

    /// The value of `name`, which is one of `known`, or the default if `name` is absent.
    pub(crate) fn word<'k>(
        &self,
        name: &str,
        default: &'k str,
        known: &[&'k str],
    ) -> Outcome<&'k str> {
        self.text(name).map_or(Ok(default), |text| one_of(name, text, known))
    }

    /// The value of `name` as a list of words of `known`, separated by commas; all of them if `name` is absent.
    pub(crate) fn words<'k>(&self, name: &str, known: &[&'k str]) -> Outcome<Vec<&'k str>> {
        match self.text(name) {
            None => Ok(known.to_vec()),
            Some(text) => text.split(',').map(|text| one_of(name, text, known)).collect(),
        }
    }

    /// The rows whose names contain the text of `--only`; all rows without this option.
    pub(crate) fn only<'r, R>(
        &self,
        rows: &'r [R],
        name: fn(&R) -> &'static str,
    ) -> Outcome<Vec<&'r R>> {
        let text = self.text("only").unwrap_or("");
        let chosen: Vec<_> = rows.iter().filter(|row| name(row).contains(text)).collect();
        if chosen.is_empty() {
            let names: String = rows.iter().map(|row| format!("\n    {}", name(row))).collect();
            return Err(wrong(format!("`--only {text}` is in none of the rows' names:{names}")));
        }
        Ok(chosen)
    }

    /// The server's binary: `--nagi`, or else `nagi` in the folder of the running program.
    pub(crate) fn nagi(&self) -> Outcome<PathBuf> {
        match self.text("nagi") {
            Some(path) => Ok(PathBuf::from(path)),
            None => Ok(self_program()?.with_file_name("nagi")),
        }
    }
}

/// The error of wrong arguments.
pub(crate) fn wrong(text: String) -> Problem {
    Problem::Usage(text + "\n")
}

/// "; did you mean `breadth`?" with the known name that is most similar; empty if no name is similar.
pub(crate) fn did_you_mean(name: &str, known: &[&str], dashes: &str) -> String {
    let meant = nagi_error::nearest(name, known.iter().map(|name| (*name, *name)));
    meant.map(|meant| format!("; did you mean `{dashes}{meant}`?")).unwrap_or_default()
}

fn number<T: FromStr>(name: &str, text: &str) -> Outcome<T> {
    let kind = if "0.5".parse::<T>().is_ok() { "number" } else { "whole number" };
    text.parse().map_err(|_| wrong(format!("`--{name} {text}` is not a {kind}")))
}

fn within<T>(name: &str, text: &str, range: &Range<T>) -> Outcome<T>
where
    T: FromStr + PartialOrd + Display,
{
    let outside = || {
        let (least, most) = (range.start(), range.end());
        Err(wrong(format!("`--{name} {text}` is not between {least} and {most}")))
    };
    match number(name, text) {
        Ok(value) if range.contains(&value) => Ok(value),
        Ok(_) => outside(),
        // A number that the type cannot have: negative, or too large.
        Err(_) if text.parse::<i128>().is_ok() => outside(),
        Err(problem) => Err(problem),
    }
}

fn one_of<'k>(name: &str, text: &str, known: &[&'k str]) -> Outcome<&'k str> {
    let found = known.iter().find(|known| **known == text).copied();
    found.ok_or_else(|| wrong(format!("`--{name} {text}` is none of: {}", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["documents", "only", "seconds", "text", "bare"];

    fn args(args: &[&str]) -> Outcome<Args> {
        Args::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), KNOWN)
    }

    /// The text of the error without the end of the line.
    fn told<T>(outcome: Outcome<T>) -> String {
        match outcome {
            Err(Problem::Usage(text)) => text.trim_end().to_owned(),
            _ => panic!("wrong arguments are accepted"),
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        for (given, text) in [
            (
                &["--documnets", "5"][..],
                "unknown option `--documnets`; did you mean `--documents`?",
            ),
            (&["--elsewhere=x"], "unknown option `--elsewhere`"),
            (&["--text"], "`--text` needs a value"),
            (&["text"], "unexpected argument `text`"),
        ] {
            assert_eq!(told(args(given)), text);
        }
    }

    #[test]
    fn errors_name_the_option_and_its_values() {
        let one = |given: &[&str]| args(given).unwrap();
        let documents = |text| one(&["--documents", text]).number_in("documents", 7_u64, 5..=100);
        assert_eq!(documents("100").unwrap(), 100);
        assert_eq!(one(&[]).number_in("documents", 7_u64, 5..=100).unwrap(), 7);
        for text in ["4", "-4", "101", "99999999999999999999"] {
            let error = format!("`--documents {text}` is not between 5 and 100");
            assert_eq!(told(documents(text)), error);
        }
        assert_eq!(told(documents("5.5")), "`--documents 5.5` is not a whole number");
        let seconds = one(&["--seconds", "nan"]).number_in("seconds", 1.0, 0.5..=2.0);
        assert_eq!(told(seconds), "`--seconds nan` is not between 0.5 and 2");
        let list = one(&["--seconds", "1,x"]).numbers_in("seconds", "1", 0.5..=2.0);
        assert_eq!(told(list), "`--seconds x` is not a number");
        let bare = one(&["--bare", "yes"]).flag("bare");
        assert_eq!(told(bare), "`--bare yes` is neither true nor false");
        let words = one(&["--text", "read,reads"]).words("text", &["read", "insert"]);
        assert_eq!(told(words), "`--text reads` is none of: read, insert");
        let only = one(&["--only", "zzz"]);
        let error = told(only.only(&["scan", "group"], |name| name));
        assert_eq!(error, "`--only zzz` is in none of the rows' names:\n    scan\n    group");
    }
}
