//! Catalogues: names map to files mechanically, and what has a golden case says what it is.
use nagi_testkit::tidy::{Breaches, Source, rust_sources, snake, sources};

/// Folders where each file is one row, and the field that holds its protocol name.
const ONE_ROW_A_FILE: &[(&str, &str, &str)] = &[
    ("crates/server/src/commands/", "static ", ": Command = Command {"),
    ("crates/query/src/stages/", "static ", ": StageSpec = StageSpec {"),
];

#[test]
fn a_row_has_the_name_of_its_file() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        for (folder, before, after) in ONE_ROW_A_FILE {
            if !path.starts_with(folder) {
                continue;
            }
            for (index, line) in text.lines().enumerate().filter(|(_, l)| l.contains(after)) {
                let Some(row) = line.split(after).next().and_then(|l| l.split(before).nth(1))
                else {
                    continue;
                };
                let name = text.lines().skip(index).find_map(|l| l.split("name: \"").nth(1));
                let name = name.and_then(|l| l.split('"').next()).unwrap_or("");
                let file = path.rsplit('/').next().unwrap_or("").trim_end_matches(".rs");
                let file = if file == "mod" { path.rsplit('/').nth(1).unwrap_or("") } else { file };
                if snake(name) != row.to_lowercase() {
                    breaches.add(&path, Some(index + 1), format!("row {row} is named `{name}`"));
                }
                if snake(name) != file {
                    breaches.add(
                        &path,
                        Some(index + 1),
                        format!("`{name}` is not in its own file"),
                    );
                }
            }
        }
    }
    breaches.finish("rows and files");
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
