//! Rules over registries: the name of a row determines its file, and golden cases have comments.
use nagi_testkit::tidy::{Breaches, Source, rust_sources, snake, sources};

/// Folders in which each file is one row, and the field that holds its protocol name.
const ONE_ROW_A_FILE: &[(&str, &str, &str)] = &[
    ("crates/doctor/src/checks/", "static ", ": Check ="),
    ("crates/server/src/commands/", "static ", ": Command ="),
    ("crates/query/src/stages/", "static ", ": StageSpec ="),
];

#[test]
fn a_row_has_the_name_of_its_file() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        for (_, before, after) in ONE_ROW_A_FILE.iter().filter(|(at, ..)| path.starts_with(at)) {
            let rows = rows(&text, before, after);
            for (line, row, name) in &rows {
                // Names that begin with an underscore are for tools; the constants and files omit the
                // underscore.
                if snake(name.trim_start_matches('_')) != row.to_lowercase().trim_end_matches('_') {
                    breaches.add(&path, Some(*line), format!("row {row} is named `{name}`"));
                }
            }
            let (folder, file) = path.rsplit_once('/').expect("crates/...");
            let stem = file.trim_end_matches(".rs").trim_end_matches('_');
            let stem = if stem == "mod" { folder.rsplit('/').next().unwrap_or("") } else { stem };
            // A file may contain a second row besides the one it is named after: `isMaster` beside `hello`.
            if !rows.is_empty()
                && !rows.iter().any(|(_, _, name)| snake(name.trim_start_matches('_')) == stem)
            {
                breaches.add(&path, None, "no row has the name of this file");
            }
        }
    }
    breaches.finish("rows and files");
}

/// The line, the constant's name and the protocol name of each row in a file.
fn rows<'a>(text: &'a str, before: &str, after: &str) -> Vec<(usize, &'a str, &'a str)> {
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let row =
            line.split_once(after).and_then(|(l, _)| l.split_once(before)).map(|(_, row)| row);
        let name = text.lines().skip(index).find_map(|l| l.split("name: \"").nth(1));
        if let (Some(row), Some(name)) = (row, name.and_then(|l| l.split('"').next())) {
            rows.push((index + 1, row, name));
        }
    }
    rows
}

#[test]
fn golden_files_are_well_formed() {
    let mut breaches = Breaches::default();
    for Source { path, text } in sources(|p| p.starts_with("tests/golden/") && p.ends_with(".txt"))
    {
        match nagi_testkit::golden::parse(&text) {
            Err(problem) => breaches.add(&path, None, problem),
            Ok((cases, _)) if cases.is_empty() => breaches.add(&path, None, "no case"),
            Ok(_) => {}
        }
    }
    breaches.finish("golden files");
}
