//! Regular expressions on PCRE2, for filters and expressions.
//!
//! UTF is on and Unicode properties are off, as in MongoDB: `\w`, `\d`, `\s` and `\b` know only ASCII, unless the
//! pattern begins with `(*UCP)`. The option `i` folds the case of all letters.
//!
//! Invariants
//! - Patterns are untrusted. Their length, the number of steps of a match and its memory are bounded, so that a
//!   hostile pattern results in an error.
//! - A pattern with a literal prefix does not call PCRE2 for texts that do not begin with it ([`Pattern::prefix`]).

mod ffi;
mod prefix;

use std::sync::Arc;

use nagi_error::{Code, Error, Result, bail, err};

use prefix::Prefix;

/// The length in bytes of the longest accepted pattern.
pub const PATTERN_BYTES_MAX: usize = 32_764;

/// A compiled pattern with its options.
#[derive(Clone)]
pub struct Pattern {
    pattern: Box<str>,
    options: Box<str>,
    code: Arc<ffi::Code>,
    /// The text with which every match begins, if it is known: see [`Pattern::prefix`].
    prefix: Prefix,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 2 for a NUL byte, 51108 for an unknown option, 51091 for a pattern that is too long or does not compile, 146
    /// if there is not enough memory.
    pub fn new(pattern: &str, options: &str) -> Result<Pattern> {
        if pattern.contains('\0') {
            bail!(Code::BAD_VALUE, "Regular expression cannot contain an embedded null byte");
        }
        if options.contains('\0') {
            bail!(
                Code::BAD_VALUE,
                "Regular expression options string cannot contain an embedded null byte"
            );
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            bail!(
                Code::Location(51091),
                "Regular expression is invalid: pattern string is longer than the limit set by the application"
            );
        }
        let code = Arc::new(compile(pattern, options)?);
        let prefix = Prefix::find(pattern, options);
        Ok(Pattern { pattern: pattern.into(), options: sorted(options), code, prefix })
    }

    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options in alphabetical order, without duplicates.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Returns true if the pattern matches anywhere in `text`.
    ///
    /// # Errors
    /// 51156 if the match needs more than the allowed steps or memory, 146 if the server does not have that memory.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.prefix {
            Prefix::Exact(prefix) => Ok(text.starts_with(&**prefix)),
            Prefix::Begins(prefix) if !text.starts_with(&**prefix) => Ok(false),
            _ => self.code.is_match(text).map_err(|failure| self.failed(failure)),
        }
    }

    /// An iterator over the matches in `text`, with their groups.
    pub fn matches<'t>(&self, text: &'t str) -> Matches<'_, 't> {
        Matches { pattern: self, text, found: self.code.check_memory(), next: Some(0) }
    }

    /// The error for a match that was given up.
    fn failed(&self, failure: ffi::Failure) -> Error {
        if failure.is_out_of_memory() {
            return out_of_memory(&self.pattern);
        }
        err!(
            Code::Location(51156),
            "Error occurred while executing the regular expression /{}/: {failure}",
            self.pattern
        )
    }

    /// The text with which every match begins, and true if each text with this prefix matches. `None` if no prefix is
    /// known. Used for index bounds.
    pub fn prefix(&self) -> Option<(&str, bool)> {
        match &self.prefix {
            Prefix::None => None,
            Prefix::Begins(text) => Some((text, false)),
            Prefix::Exact(text) => Some((text, true)),
        }
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/{}", self.pattern, self.options)
    }
}

/// The matches of a pattern in one text, without overlaps.
pub struct Matches<'p, 't> {
    pattern: &'p Pattern,
    text: &'t str,
    found: ffi::Found,
    /// The position at which the next match may begin; none at the end.
    next: Option<usize>,
}

impl<'t> Matches<'_, 't> {
    /// Advances to the next match. As in MongoDB, an empty match may directly follow another match, and the end of
    /// the text is only tried if the text is empty.
    ///
    /// # Errors
    /// 51156 if the match needs more than the allowed steps or memory, 146 if the server does not have that memory.
    pub fn advance(&mut self) -> Result<bool> {
        let Some(from) = self.next.take() else { return Ok(false) };
        let found = self.pattern.code.find(self.text, from, &mut self.found);
        if !found.map_err(|failure| self.pattern.failed(failure))? {
            return Ok(false);
        }
        let (start, end) = self.found.group(0).unwrap_or((from, from));
        let past = if end > start { end } else { self.text.ceil_char_boundary(start + 1) };
        // `\K` can move the start backwards; the filter ensures progress.
        self.next = Some(past).filter(|&past| past > from && past < self.text.len());
        Ok(true)
    }

    /// The start of the match, in bytes.
    pub fn start(&self) -> usize {
        self.found.group(0).map_or(0, |(start, _)| start)
    }

    /// The text of a group, 0 for the match itself; none if the group did not participate.
    pub fn group(&self, at: usize) -> Option<&'t str> {
        self.found.group(at).map(|(start, end)| self.text.get(start..end).unwrap_or(""))
    }

    /// The number of groups of the pattern.
    pub fn groups(&self) -> usize {
        self.found.len() - 1
    }
}

fn out_of_memory(pattern: &str) -> Error {
    err!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: the regular expression /{pattern}/ needs more memory than the server has left"
    )
}

fn compile(pattern: &str, options: &str) -> Result<ffi::Code> {
    let mut flags = 0;
    for option in options.chars() {
        flags |= match option {
            'i' => pcre2_sys::PCRE2_CASELESS,
            'm' => pcre2_sys::PCRE2_MULTILINE,
            's' => pcre2_sys::PCRE2_DOTALL,
            'x' => pcre2_sys::PCRE2_EXTENDED,
            'u' => 0,
            other => bail!(Code::Location(51108), "invalid flag in regex options: {other}"),
        };
    }
    ffi::Code::compile(pattern, flags).map_err(|failure| match failure.is_out_of_memory() {
        true => out_of_memory(pattern),
        false => err!(Code::Location(51091), "Regular expression is invalid: {failure}"),
    })
}

fn sorted(options: &str) -> Box<str> {
    let mut chars: Vec<char> = options.chars().collect();
    chars.sort_unstable();
    chars.dedup();
    chars.into_iter().collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions and texts of all matches.
    fn all(pattern: &str, text: &str) -> Vec<(usize, String)> {
        let pattern = Pattern::new(pattern, "").expect("compiles");
        let mut matches = pattern.matches(text);
        let mut found = Vec::new();
        while matches.advance().expect("within the limits") {
            found.push((matches.start(), matches.group(0).unwrap_or("none").to_owned()));
        }
        found
    }

    #[test]
    fn what_backtracking_holds_is_the_requests() {
        let turns = Pattern::new("^(?:(a|b)(?=.))*[cd]", "").unwrap();
        let text = "ab".repeat(50_000);
        assert!(!turns.is_match(&text).expect("there is no limit but the library's"));
        let budget = nagi_budget::Budget::new(4 << 20);
        let request = nagi_budget::Metering::begin(&budget);
        let error = turns.is_match(&text).unwrap_err();
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{error}");
        let error = turns.matches(&text).advance().unwrap_err();
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{error}");
        // Small matches continue.
        assert!(Pattern::new("(a|b)+$", "").unwrap().is_match("ab").unwrap());
        drop(request);
        assert_eq!(budget.demand(), 0);
        assert!(!turns.is_match(&text).unwrap());
    }

    #[test]
    fn matches_follow_each_other() {
        let at = |pattern, text| -> Vec<usize> { all(pattern, text).iter().map(|m| m.0).collect() };
        assert_eq!(at("", ""), [0]);
        assert_eq!(at("a*?", "aaa"), [0, 1, 2]);
        assert_eq!(all("a*", "aab"), [(0, "aa".into()), (2, String::new())]);
        assert_eq!(at("x*", "h\u{e9}l\u{1f600}o"), [0, 1, 3, 4, 8]);
        assert_eq!(all("a\\Kb", "abab"), [(1, "b".into()), (3, "b".into())]);
        assert_eq!(all("(?<=a)b", "abab"), [(1, "b".into()), (3, "b".into())]);
        assert_eq!(all("^a", "aaa"), [(0, "a".into())]);
        assert_eq!(all("\\x{e9}|[^a-z]", "\u{e9}a\u{20ac}").len(), 2);
        assert_eq!(all(".", "\u{1f600}x"), [(0, "\u{1f600}".into()), (4, "x".into())]);
        assert_eq!(all("(*NO_JIT)b", "abab"), [(1, "b".into()), (3, "b".into())]);
    }

    #[test]
    fn groups_without_a_part_are_none() {
        let pattern = Pattern::new("(a)|(b)(c)?", "").expect("compiles");
        let mut matches = pattern.matches("ba");
        assert!(matches.advance().expect("no limit"));
        let groups =
            |m: &Matches<'_, '_>| (1..=m.groups()).map(|at| m.group(at).map(str::len)).collect();
        let first: Vec<_> = groups(&matches);
        assert_eq!(first, [None, Some(1), None]);
        assert!(matches.advance().expect("no limit"));
        let second: Vec<_> = groups(&matches);
        assert_eq!(second, [Some(1), None, None]);
        assert!(!matches.advance().expect("no limit"));
        assert!(!matches.advance().expect("no limit"), "the end stays the end");
    }

    /// With a UTF check of the whole text before each match this would take minutes.
    #[test]
    fn many_matches_cost_one_pass() {
        for letter in ["x", "\u{e9}"] {
            let text = letter.repeat(1 << 20);
            let pattern = Pattern::new(letter, "i").expect("compiles");
            let mut matches = pattern.matches(&text);
            let mut count = 0;
            while matches.advance().expect("no limit") {
                count += 1;
            }
            assert_eq!(count, 1 << 20);
        }
    }

    #[test]
    fn single_bytes_of_characters_are_refused() {
        let error = Pattern::new("a\\Cb", "").expect_err("half a character");
        assert_eq!(error.code(), Code::Location(51091));
    }

    #[test]
    fn long_texts_need_no_machine_stack() {
        let pattern = Pattern::new("^(a|b|cd)*z$", "").expect("compiles");
        let text = format!("{}z", "abcd".repeat(20_000));
        assert!(pattern.is_match(&text).expect("within the limits"));
        let mut matches = pattern.matches(&text);
        assert!(matches.advance().expect("within the limits"));
        assert_eq!(matches.group(1), Some("cd"));
    }

    #[test]
    fn hostile_patterns_end_in_errors() {
        let text = format!("{}!", "a".repeat(4000));
        for hostile in ["(a+)+$", "(*NO_JIT)(a+)+$", "(*LIMIT_MATCH=4000000000)(a|a)+$"] {
            let outcome = Pattern::new(hostile, "").expect("compiles").is_match(&text);
            assert_eq!(outcome.expect_err(hostile).code(), Code::Location(51156));
        }
        assert_eq!(Pattern::new("(", "").expect_err("unbalanced").code(), Code::Location(51091));
        assert_eq!(Pattern::new("a", "q").expect_err("option").code(), Code::Location(51108));
        assert_eq!(Pattern::new(&"a".repeat(40_000), "").expect_err("long").code().0, 51091);
    }
}
