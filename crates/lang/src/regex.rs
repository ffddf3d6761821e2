//! Regular expressions on PCRE2, as filters and expressions use them.
//!
//! UTF is on, Unicode properties are not, as in MongoDB: `\w`, `\d`, `\s` and `\b` know ASCII only,
//! unless the pattern begins with `(*UCP)`; `i` folds the case of any letter. Patterns
//! come from strangers: their length, the number of steps of a match and its memory are bounded, so
//! that a hostile pattern ends in an error.

use std::sync::OnceLock;

use nagi_error::{Code, Result, bail, err};

/// Longest pattern accepted, in bytes.
pub const PATTERN_BYTES_MAX: usize = 32_764;

/// Steps one match may take and depth of backtracking; in front of the pattern, so that a pattern
/// can only lower them.
const LIMITS: &str = "(*LIMIT_MATCH=5000000)(*LIMIT_HEAP=65536)";

/// A compiled pattern with its options.
#[derive(Clone)]
pub struct Pattern {
    pattern: Box<str>,
    options: Box<str>,
    code: pcre2::bytes::Regex,
    /// The same without machine code, made when that ran out of its stack.
    slow: OnceLock<Option<pcre2::bytes::Regex>>,
    /// What every matching text begins with, when the pattern says so: see [`Pattern::prefix`].
    prefix: Prefix,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Prefix {
    None,
    /// The text begins with this.
    Begins(Box<str>),
    /// The text begins with this, and whatever does so matches.
    Exact(Box<str>),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 2 for a NUL byte, 51108 for an unknown option, 51091 for a pattern that does not compile.
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
        let code = compile(pattern, options, true)?;
        let prefix = find_prefix(pattern, options);
        let options = sorted(options);
        Ok(Pattern { pattern: pattern.into(), options, code, slow: OnceLock::new(), prefix })
    }

    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options in alphabetical order, each once.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the pattern matches anywhere in `text`.
    ///
    /// # Errors
    /// 51156 when the match needs more than the allowed steps or memory.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.prefix {
            Prefix::Exact(prefix) => Ok(text.starts_with(&**prefix)),
            Prefix::Begins(prefix) if !text.starts_with(&**prefix) => Ok(false),
            _ => match self.code.is_match(text.as_bytes()) {
                Ok(found) => Ok(found),
                Err(error) => self.is_match_slowly(text, &error),
            },
        }
    }

    /// Machine code has a small stack; the interpreter has a heap, and limits of its own.
    fn is_match_slowly(&self, text: &str, error: &pcre2::Error) -> Result<bool> {
        let slow = self.slow.get_or_init(|| compile(&self.pattern, &self.options, false).ok());
        match slow {
            Some(code) => code.is_match(text.as_bytes()).map_err(|error| self.failed(&error)),
            None => Err(self.failed(error)),
        }
    }

    /// The compiled code, for operators that want positions and groups.
    pub fn code(&self) -> &pcre2::bytes::Regex {
        &self.code
    }

    /// The error for a match that was given up.
    pub fn failed(&self, error: &pcre2::Error) -> nagi_error::Error {
        err!(
            Code::Location(51156),
            "Error occurred while executing the regular expression /{}/: {}",
            self.pattern,
            reason(error)
        )
    }

    /// What every matching text begins with, and whether beginning so is already a match. For index
    /// bounds; `None` when nothing is known.
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

fn compile(pattern: &str, options: &str, machine_code: bool) -> Result<pcre2::bytes::Regex> {
    let mut builder = pcre2::bytes::RegexBuilder::new();
    builder.utf(true).jit_if_available(machine_code);
    for flag in options.chars() {
        match flag {
            'i' => builder.caseless(true),
            'm' => builder.multi_line(true),
            's' => builder.dotall(true),
            'x' => builder.extended(true),
            'u' => &mut builder,
            other => bail!(Code::Location(51108), "invalid flag in regex options: {other}"),
        };
    }
    builder.build(&format!("{LIMITS}{pattern}")).map_err(|error| {
        err!(Code::Location(51091), "Regular expression is invalid: {}", reason(&error))
    })
}

fn sorted(options: &str) -> Box<str> {
    let mut chars: Vec<char> = options.chars().collect();
    chars.sort_unstable();
    chars.dedup();
    chars.into_iter().collect::<String>().into()
}

/// PCRE2's own words, without the library's framing and our limits in the offsets.
fn reason(error: &pcre2::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(": ").map_or(text.clone(), |(_, words)| words.to_owned())
}

/// Reads the literal text behind `^` or `\A`, with `\Q...\E`, up to the first character that means
/// something else.
fn find_prefix(pattern: &str, options: &str) -> Prefix {
    if options.contains(['i', 'x']) || pattern.contains('|') {
        return Prefix::None;
    }
    let rest = match (pattern.strip_prefix("\\A"), pattern.strip_prefix('^')) {
        (Some(rest), _) => rest,
        (_, Some(rest)) if !options.contains('m') => rest,
        _ => return Prefix::None,
    };
    let mut text = String::new();
    let mut quoted = false;
    let mut exact = true;
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('Q') if !quoted => quoted = true,
                Some('E') if quoted => quoted = false,
                Some(escaped) if !quoted && !escaped.is_ascii_alphanumeric() && escaped != '\0' => {
                    text.push(escaped);
                }
                Some(other) if quoted => {
                    text.push('\\');
                    text.push(other);
                }
                _ => {
                    exact = false;
                    break;
                }
            },
            c if quoted => text.push(c),
            '*' | '?' | '{' => {
                text.pop();
                exact = false;
                break;
            }
            '^' | '$' | '.' | '[' | '(' | ')' | '+' => {
                exact = false;
                break;
            }
            c => text.push(c),
        }
    }
    match (text.is_empty(), exact) {
        (true, _) => Prefix::None,
        (false, true) => Prefix::Exact(text.into()),
        (false, false) => Prefix::Begins(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(pattern: &str, options: &str) -> Option<(String, bool)> {
        let pattern = Pattern::new(pattern, options).expect("compiles");
        pattern.prefix().map(|(text, exact)| (text.to_owned(), exact))
    }

    #[test]
    fn finds_literal_prefixes() {
        assert_eq!(prefix("^abc", ""), Some(("abc".into(), true)));
        assert_eq!(prefix("^abc.*", ""), Some(("abc".into(), false)));
        assert_eq!(prefix("^abc*", ""), Some(("ab".into(), false)));
        assert_eq!(prefix("^ab+", ""), Some(("ab".into(), false)));
        assert_eq!(prefix("^a\\.b$", ""), Some(("a.b".into(), false)));
        assert_eq!(prefix("\\Aab", "m"), Some(("ab".into(), true)));
        assert_eq!(prefix("^\\Qa.b\\Ec", ""), Some(("a.bc".into(), true)));
        assert_eq!(prefix("^ab", "i"), None);
        assert_eq!(prefix("^ab", "m"), None);
        assert_eq!(prefix("^ab|c", ""), None);
        assert_eq!(prefix("^a\\d", ""), Some(("a".into(), false)));
    }

    #[test]
    fn long_texts_need_no_machine_stack() {
        let pattern = Pattern::new("^(a|b|cd)*z$", "").expect("compiles");
        let text = format!("{}z", "abcd".repeat(20_000));
        assert!(pattern.is_match(&text).expect("within the limits"));
    }

    #[test]
    fn hostile_patterns_end_in_errors() {
        let pattern = Pattern::new("(a+)+$", "").expect("compiles");
        let text = format!("{}!", "a".repeat(4000));
        let outcome = pattern.is_match(&text);
        assert!(outcome.is_err() || outcome.is_ok_and(|found| !found));
        assert_eq!(Pattern::new("(", "").expect_err("unbalanced").code(), Code::Location(51091));
        assert_eq!(Pattern::new("a", "q").expect_err("option").code(), Code::Location(51108));
        assert_eq!(Pattern::new(&"a".repeat(40_000), "").expect_err("long").code().0, 51091);
    }
}
