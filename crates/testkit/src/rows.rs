//! Checks that every row of a registry has golden cases: ordinary ones, and one that is an error.
//!
//! The rows of the document language need four kinds of cases: an ordinary case, a case with a null or missing
//! value, a case of a wrong type with its error code, and an edge case (the ends of a number's range, NaN,
//! zero, the empty array, document or text). [`Files::language`] requires all four.
//!
//! The crate of a registry calls [`check`] with the names of its rows, because only that crate knows them all.
use std::fmt::Write as _;
use std::fs;

use crate::golden;

/// Minimum number of cases in a file, without set-up.
const CASES_MIN: usize = 3;

/// Verbs that set something up and have no output of interest.
const SETUP: &[&str] = &["doc", "docs", "where", "filters"];

/// Exceptions for the files of a registry.
#[derive(Default)]
pub struct Files {
    /// Rows whose cases are in another file: the row, and the file without `.txt`.
    pub shared: &'static [(&'static str, &'static str)],
    /// Rows that cannot fail with any argument, with the reason.
    pub never_fails: &'static [(&'static str, &'static str)],
    /// True for rows of the document language: cases with null or missing values, a wrong type and an edge are
    /// required too.
    pub language: bool,
    /// Rows of the document language that accept or skip values of every type, so that only their form can be
    /// wrong.
    pub any_type: &'static [&'static str],
    /// Rows that cannot be used, so that all their cases are errors, with the reason.
    pub always_fails: &'static [(&'static str, &'static str)],
}

/// Substrings of the input by which a case with a null or missing value is recognised.
const ABSENT: &[&str] = &["null", "missing", "undefined", "on {}", "over []", "{}", "{_id: 2}"];

/// Substrings of the input by which an edge case is recognised.
const EDGES: &[&str] = &[
    "NaN",
    "Infinity",
    "-0.0",
    "\"\"",
    "[]",
    "{}",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "NumberDecimal",
    "NumberLong",
    "MaxKey",
    "MinKey",
    "\\u",
    ": 0}",
    ": 0,",
    ", 0]",
    "[0,",
    " -1",
    "1e3",
    "4294967295",
    "ISODate(\"0",
    "ISODate(\"9999",
];

/// Substrings of errors about the form of a case, such as the number of arguments or their names.
const FORMS: &[&str] = &[
    "were passed in",
    "Unrecognized expression",
    "undefined variable",
    "unknown operator",
    "unary operator",
    "accept arguments",
    "takes no arguments",
    "Lower bound must not exceed",
    "field is not allowed",
    "top-level document",
];

/// Panics and lists every row whose file `tests/golden/<registry>/<row without $>.txt` is missing, never names
/// the row, has fewer than three cases, or has no error.
pub fn check<'n>(registry: &str, rows: impl IntoIterator<Item = &'n str>, files: &Files) {
    let mut problems = String::new();
    for row in rows {
        let shared = files.shared.iter().find(|(name, _)| *name == row);
        let stem = shared.map_or(row.trim_start_matches('$'), |(_, stem)| stem);
        let path = golden::dir(registry).join(format!("{stem}.txt"));
        let never_fails = files.never_fails.iter().any(|(name, _)| *name == row);
        let always_fails = files.always_fails.iter().any(|(name, _)| *name == row);
        let result = check_file(&path, row, never_fails)
            .and_then(|()| check_language(&path, files.language && !always_fails))
            .and_then(|()| {
                let any = files.any_type.contains(&row) || never_fails || always_fails;
                if files.language { check_types(&path, any) } else { Ok(()) }
            });
        if let Err(problem) = result {
            let _ = writeln!(problems, "  {row}: {problem} ({})", path.display());
        }
    }
    assert!(problems.is_empty(), "rows of {registry} without their golden cases:\n{problems}");
}

/// Checks the rows of `docs/features.tsv` of these `kinds`, which are rules and not names in a registry. Each
/// needs the four kinds of cases in `tests/golden/semantics/<id>.txt`. A rule that needs a server is listed in
/// `elsewhere`, with a file below `tests` and words that the file contains.
///
/// Panics and lists every row without such cases.
pub fn check_rules(kinds: &[&str], elsewhere: &[(&str, &str, &str)]) {
    let root = crate::tidy::root();
    let features =
        fs::read_to_string(root.join("docs/features.tsv")).expect("it is in the repository");
    let mut problems = String::new();
    for line in features.lines() {
        let mut columns = line.split('\t');
        let (Some(id), Some(kind)) = (columns.next(), columns.nth(1)) else { continue };
        if !kinds.contains(&kind) {
            continue;
        }
        let result = match elsewhere.iter().find(|(row, ..)| *row == id) {
            Some((_, file, words)) => check_words(&root.join("tests").join(file), words),
            None => check_rule(&golden::dir("semantics").join(format!("{id}.txt"))),
        };
        if let Err(problem) = result {
            let _ = writeln!(problems, "  {id}: {problem}");
        }
    }
    assert!(problems.is_empty(), "rules without their golden cases:\n{problems}");
}

fn check_words(path: &std::path::Path, words: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|_| format!("no file {}", path.display()))?;
    match text.contains(words) {
        true => Ok(()),
        false => Err(format!("{} does not show {words:?}", path.display())),
    }
}

fn check_rule(path: &std::path::Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|_| format!("no file {}", path.display()))?;
    let (cases, _) = golden::parse(&text)?;
    if !cases.iter().any(|case| case.output.contains("error ")) {
        return Err("no case shows an error".to_owned());
    }
    check_language(path, true)
}

fn check_file(path: &std::path::Path, row: &str, never_fails: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|_| "no file".to_owned())?;
    let (cases, _) = golden::parse(&text)?;
    let cases: Vec<_> = cases.iter().filter(|case| !SETUP.contains(&&*case.verb)).collect();
    if cases.len() < CASES_MIN {
        return Err(format!("{} cases, {CASES_MIN} are wanted", cases.len()));
    }
    if !cases.iter().any(|case| case.input.contains(row)) {
        return Err("no case names it".to_owned());
    }
    let fails = cases.iter().any(|case| case.output.contains("error "));
    match (fails, never_fails) {
        (false, false) => Err("no case shows an error".to_owned()),
        (true, true) => Err("is listed as never failing, but does".to_owned()),
        _ => Ok(()),
    }
}

/// Checks that the file has an error of a wrong type. `any` means that no type is wrong.
fn check_types(path: &std::path::Path, any: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|_| "no file".to_owned())?;
    let (cases, _) = golden::parse(&text)?;
    let of_type = |case: &golden::Case| {
        case.output.contains("error ") && !FORMS.iter().any(|form| case.output.contains(form))
    };
    match cases.iter().any(of_type) || any {
        true => Ok(()),
        false => Err("no error of a wrong type, only of the form".to_owned()),
    }
}

/// Checks the additional cases that the rows of the document language need.
fn check_language(path: &std::path::Path, language: bool) -> Result<(), String> {
    if !language {
        return Ok(());
    }
    let text = fs::read_to_string(path).map_err(|_| "no file".to_owned())?;
    let (cases, _) = golden::parse(&text)?;
    let shown = |tokens: &[&str]| cases.iter().any(|c| tokens.iter().any(|t| c.input.contains(t)));
    let ordinary =
        |case: &golden::Case| !SETUP.contains(&&*case.verb) && !case.output.contains("error ");
    if !cases.iter().any(ordinary) {
        return Err("no ordinary case".to_owned());
    }
    if !shown(ABSENT) {
        return Err("no case of a value that is null or missing".to_owned());
    }
    if !shown(EDGES) {
        return Err("no case at an edge".to_owned());
    }
    Ok(())
}
