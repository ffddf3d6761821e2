//! Golden text cases. A case is a verb with its input, three dashes, the output and an empty line:
//!
//!   # $ceil rounds toward positive infinity.
//!   eval {$ceil: 2.3}
//!   ---
//!   3.0
//!
//! Lines that begin with `#` between cases are comments and are preserved. Input may span several lines. Output
//! ends at the first empty line, so an output never contains one. A NUL in the output is written `\0`, so that
//! the files remain text.
//!
//! `UPDATE_GOLDEN=1 cargo test -p <crate>` writes the actual outputs into the files; the diff is then reviewed.
//! `GOLDEN=<text>` runs only files whose path contains that text.
//!
//! This module does not know the meaning of a verb. The test of a registry passes a function from (verb,
//! input) to output text; errors are outputs too (`error 28765 Location28765: ...`).
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Number of failures printed in full; the rest are only counted.
const SHOWN_MAX: usize = 25;

/// One case of a file: its position, its input and the expected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Comment and empty lines before the case, kept when the file is rewritten.
    pub lead: String,
    /// Line of the verb, from 1.
    pub line: usize,
    /// First word of the input.
    pub verb: String,
    /// The rest of the input; line breaks inside are kept.
    pub input: String,
    /// Expected output without its last line break.
    pub output: String,
}

/// `tests/golden/<registry>` of this repository.
pub fn dir(registry: &str) -> PathBuf {
    crate::tidy::root().join("tests/golden").join(registry)
}

/// Replaces each UUID in the text of an error by `...`, because UUIDs differ in each run.
pub fn without_uuids(text: &str) -> String {
    const PARTS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_uuid = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        parts.len() == PARTS.len()
            && parts
                .iter()
                .zip(PARTS)
                .all(|(part, len)| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let word = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        out.push_str(if is_uuid(&rest[..end]) { "..." } else { &rest[..end] });
        let next = rest[end..].find(word).map_or(rest.len(), |at| end + at);
        out.push_str(&rest[end..next]);
        rest = &rest[next..];
    }
    out
}

/// Runs every `.txt` below `dir` (sorted) and panics with all differences.
///
/// One handler serves all files; see [`run_files`] when each file needs a fresh one.
pub fn run(dir: &Path, handle: &mut dyn FnMut(&str, &str) -> String) {
    run_files(dir, &mut |_, verb, input| handle(verb, input));
}

/// Like [`run`], but the handler also gets the file's stem. Before the first case of each file it is called
/// with the verb `begin` (whose result is ignored), so that it can reset its state.
pub fn run_files(dir: &Path, handle: &mut dyn FnMut(&str, &str, &str) -> String) {
    let update = env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1");
    let only = env::var("GOLDEN").unwrap_or_default();
    let files = files_below(dir);
    assert!(!files.is_empty(), "no golden cases below {}", dir.display());
    let (mut case_count, mut failures) = (0, Vec::new());
    for file in files.iter().filter(|f| f.to_string_lossy().contains(&only)) {
        let text = fs::read_to_string(file).expect("a golden file is readable UTF-8");
        let (cases, tail) = match parse(&text) {
            Ok(parsed) => parsed,
            Err(problem) => {
                failures.push(format!("{}: {problem}\n", file.display()));
                continue;
            }
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        handle(&stem, "begin", "");
        let mut rewritten = String::new();
        for case in &cases {
            case_count += 1;
            let actual = handle(&stem, &case.verb, &case.input);
            let actual = actual.trim_end_matches('\n').replace('\0', "\\0");
            if actual != case.output {
                failures.push(difference(file, case, &actual));
            }
            print_case(&mut rewritten, case, &actual);
        }
        rewritten.push_str(&tail);
        if update && rewritten != text {
            fs::write(file, rewritten).expect("a golden file can be rewritten");
        }
    }
    report(dir, case_count, &failures, update);
}

fn report(dir: &Path, case_count: usize, failures: &[String], update: bool) {
    if failures.is_empty() || update {
        return;
    }
    let mut text = String::new();
    for failure in failures.iter().take(SHOWN_MAX) {
        text.push_str(failure);
    }
    panic!(
        "golden {}: {} of {case_count} cases differ (UPDATE_GOLDEN=1 rewrites them)\n{text}",
        dir.display(),
        failures.len()
    );
}

fn difference(file: &Path, case: &Case, actual: &str) -> String {
    format!(
        "\n{}:{}: {} {}\n  expected: {}\n  actual:   {}\n",
        file.display(),
        case.line,
        case.verb,
        case.input,
        case.output.replace('\n', "\n            "),
        actual.replace('\n', "\n            ")
    )
}

fn print_case(out: &mut String, case: &Case, output: &str) {
    out.push_str(&case.lead);
    out.push_str(&case.verb);
    if !case.input.is_empty() {
        if !case.input.starts_with('\n') {
            out.push(' ');
        }
        out.push_str(&case.input);
    }
    out.push_str("\n---\n");
    if !output.is_empty() {
        // An empty line would end the output, so it is written as a single dot.
        for line in output.lines() {
            let _ = writeln!(out, "{}", if line.is_empty() { "." } else { line });
        }
    }
}

/// Splits a file into its cases and the text after the last one.
pub fn parse(text: &str) -> Result<(Vec<Case>, String), String> {
    let mut cases = Vec::new();
    let mut lead = String::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            lead.push_str(line);
            lead.push('\n');
            continue;
        }
        let mut input = line.to_owned();
        loop {
            match lines.next() {
                Some((_, "---")) => break,
                Some((_, more)) => {
                    input.push('\n');
                    input.push_str(more);
                }
                None => return Err(format!("line {}: no `---` after the input", index + 1)),
            }
        }
        let mut output = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            output.push(line);
        }
        let (verb, rest) = match input.find([' ', '\n']) {
            Some(at) if input.as_bytes()[at] == b' ' => (&input[..at], &input[at + 1..]),
            Some(at) => (&input[..at], &input[at..]),
            None => (input.as_str(), ""),
        };
        cases.push(Case {
            lead: std::mem::take(&mut lead),
            line: index + 1,
            verb: verb.to_owned(),
            input: rest.to_owned(),
            output: output.join("\n"),
        });
    }
    Ok((cases, lead))
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "txt") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# about\n\neval {a: 1}\n---\n1\n2\n\n# next\nrun\n{b: 2,\n c: 3}\n---\nerror 2\n";

    #[test]
    fn uuids_of_errors_are_left_out() {
        let uuid = "c6cd4c5f-1234-4b3b-b044-5ba0dae981d3";
        let text = format!("of {uuid}: (c6cd4c5f-1234-4b3b-b044) -1 {uuid}");
        assert_eq!(without_uuids(&text), "of ...: (c6cd4c5f-1234-4b3b-b044) -1 ...");
        assert_eq!(without_uuids("\u{dc}n\u{ef}code: a-b"), "\u{dc}n\u{ef}code: a-b");
    }

    #[test]
    fn parses_and_prints_back() {
        let (cases, tail) = parse(TEXT).unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].verb.as_str(), cases[0].input.as_str()), ("eval", "{a: 1}"));
        assert_eq!(cases[0].output, "1\n2");
        assert_eq!((cases[1].verb.as_str(), cases[1].line), ("run", 9));
        assert_eq!(cases[1].input, "\n{b: 2,\n c: 3}");
        let mut printed = String::new();
        for case in &cases {
            print_case(&mut printed, case, &case.output);
        }
        assert_eq!(printed + &tail, TEXT);
    }

    #[test]
    fn an_input_without_dashes_is_refused() {
        assert!(parse("eval 1\n").unwrap_err().contains("line 1"));
    }

    #[test]
    fn differences_are_reported_with_place_and_texts() {
        let folder = env::temp_dir().join(format!("nagi-golden-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.txt"), "upper a\n---\nA\n\nupper b\n---\nx\n").unwrap();
        let failed = std::panic::catch_unwind(|| {
            run(&folder, &mut |_, input| input.to_uppercase());
        });
        fs::remove_dir_all(&folder).unwrap();
        let message = failed.unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("1 of 2 cases differ") && message.contains("a.txt:5: upper b"));
    }
}
