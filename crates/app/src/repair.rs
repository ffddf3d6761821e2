//! `--repair`: repairs a damaged data directory as far as its data is readable, then exits.
//!
//! ```text
//!   engine's repair  -->  store's salvage  -->  report, in the log and beside the damaged files
//! ```

use std::fmt::Write as _;
use std::io::ErrorKind;

use nagi_host::{Lost, Repair};
use nagi_store::{LostRange, Salvaged, Store, StoreOptions};

use crate::failure::exit;
use crate::options::Options;
use crate::{engine, memory};

const REPORT: &str = "report.txt";

/// Why a data directory was not repaired: the exit status, and a text for the log.
pub(crate) struct Refused {
    pub(crate) code: u8,
    pub(crate) error: String,
}

impl From<String> for Refused {
    fn from(error: String) -> Refused {
        Refused { code: exit::UNRECOVERABLE, error }
    }
}

impl From<nagi_kv::Error> for Refused {
    fn from(error: nagi_kv::Error) -> Refused {
        // The engine refuses so what is not its own, or is of a newer version.
        let foreign =
            matches!(&error, nagi_kv::Error::Io(error) if error.kind() == ErrorKind::InvalidData);
        let code = if foreign { exit::DATA_FOLDER } else { exit::UNRECOVERABLE };
        Refused { code, error: error.to_string() }
    }
}

impl From<nagi_error::Error> for Refused {
    fn from(error: nagi_error::Error) -> Refused {
        Refused { code: exit::of_store(&error), error: error.to_string() }
    }
}

/// Repairs the data directory of the options, which this process has locked.
pub(crate) fn run(options: &Options) -> Result<(), Refused> {
    let Some(found) = engine::repair(options, blocks(options))? else {
        return Err(Refused::from(format!(
            "--repair is not supported by the storage engine {}",
            options.engine.name()
        )));
    };
    for finding in &found.findings {
        log::warn!(target: "STORAGE", id = 8_200_010, finding = finding.as_str();
            "Repair: the data is damaged");
    }
    for lost in &found.lost {
        log::warn!(target: "STORAGE", id = 8_200_011, range = range(lost).as_str(),
            entriesSaved = lost.saved, error = lost.error.as_str();
            "Repair: a range of keys could not be read as a whole; entries that could be read by themselves are kept");
    }
    let salvaged = salvage(options, &found)?;
    if let Some(kept) = &found.kept {
        let path = kept.join(REPORT);
        std::fs::write(&path, report(&found, &salvaged))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let kept = found.kept.as_ref().map_or(String::new(), |path| path.display().to_string());
    log::info!(target: "STORAGE", id = 8_200_012,
        damaged = !found.findings.is_empty(), rangesLost = found.lost.len() as i64,
        documentsLost = salvaged.documents_lost,
        corruptRecords = salvaged.corrupt_records, orphans = salvaged.orphans.len() as i64,
        collectionsRepaired = salvaged.repaired.len() as i64,
        indexesDropped = salvaged.indexes_dropped.len() as i64, damagedFiles = kept.as_str();
        "Finished checking and repairing all databases");
    Ok(())
}

/// The memory for blocks.
fn blocks(options: &Options) -> u64 {
    memory::cache_bytes(options).0
}

fn salvage(options: &Options, found: &Repair) -> Result<Salvaged, Refused> {
    let opened = engine::open(options, blocks(options))?;
    let store_options = StoreOptions { record_cache_bytes: 0, ..StoreOptions::default() };
    let catalog_lost = found.file_list_rebuilt
        || found.lost.iter().any(|lost| lost.space == nagi_kv::Space::Catalog);
    let (store, salvaged) = Store::salvage(opened, store_options, catalog_lost)?;
    if found.kept.is_some() || salvaged != Salvaged::default() {
        // What was lost or restored is in no entry, and entries may be lost: change streams and archives must not
        // continue as if nothing had happened.
        store.cut_change_log()?;
    }
    store.close()?;
    Ok(salvaged)
}

fn range(lost: &Lost) -> String {
    LostRange { space: lost.space, from: &lost.from, to: lost.to.as_deref() }.to_string()
}

fn report(found: &Repair, salvaged: &Salvaged) -> String {
    let mut text = String::from("What nagi --repair found and did\n\n");
    put_list(&mut text, "Damage", &found.findings);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\nKeys saved: {}", found.entries);
    let lost = found.lost.iter().map(|lost| {
        format!("{}: {}; {} entries were saved one by one", range(lost), lost.error, lost.saved)
    });
    put_list(&mut text, "Ranges that could not be read as a whole", &lost.collect::<Vec<_>>());
    let _ = writeln!(
        text,
        "\nDocuments lost according to the collections' counters: {}\nRecords that were not \
         documents, or had the _id of another one, now in local.lost_and_found.*: {}\nCatalog entries lost: {}",
        salvaged.documents_lost, salvaged.corrupt_records, salvaged.catalog_entries_lost
    );
    let mut repaired = Vec::new();
    for (namespace, errors) in &salvaged.repaired {
        repaired.push(namespace.to_string());
        repaired.extend(errors.iter().map(|error| format!("  {error}")));
    }
    put_list(&mut text, "Collections repaired", &repaired);
    for (title, list) in [
        ("Documents without a collection, now in", &salvaged.orphans),
        (
            "Indexes and options removed because the catalog could not be loaded with them",
            &salvaged.left_out,
        ),
        ("Indexes that could not be rebuilt", &salvaged.indexes_dropped),
    ] {
        put_list(&mut text, title, list);
    }
    text
}

/// Adds a heading with its lines, or "none".
fn put_list(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        let _ = writeln!(text, "{title}: none");
        return;
    }
    let _ = writeln!(text, "{title}:");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

#[test]
fn empty_headings_of_a_report_say_none() {
    let found = Repair { findings: vec!["a file is missing".to_owned()], ..Repair::default() };
    let text = report(&found, &Salvaged::default());
    assert!(text.contains("Damage:\n  a file is missing\n"), "{text}");
    assert!(text.contains("Ranges that could not be read as a whole: none\n"), "{text}");
    assert!(!text.contains(":\n\n") && !text.ends_with(":\n"), "{text}");
}
