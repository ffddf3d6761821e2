//! `--repair`: repairs a damaged data directory as far as its data is readable, then exits.
//!
//! ```text
//!   engine's repair  -->  store's salvage  -->  report, in the log and beside the damaged files
//! ```

use std::fmt::Write as _;

use nagi_kv_rocks::Repair;
use nagi_store::{LostRange, Salvaged, Store, StoreOptions};

use crate::options::Options;
use crate::{engine, memory};

const REPORT: &str = "report.txt";

/// Repairs the data directory of the options, which this process has locked. The error is a text for the log.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let Some(found) =
        engine::repair(options, blocks(options)).map_err(|error| error.to_string())?
    else {
        return Err(format!(
            "--repair is not supported by the storage engine {}",
            options.engine.name()
        ));
    };
    for finding in &found.findings {
        log::warn!(target: "STORAGE", id = 8_200_010, finding = finding.as_str();
            "Repair: the data is damaged");
    }
    for lost in &found.lost {
        log::warn!(target: "STORAGE", id = 8_200_011, range = range(lost).as_str(),
            error = lost.error.as_str(); "Repair: a range of keys could not be read and is lost");
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

fn salvage(options: &Options, found: &Repair) -> Result<Salvaged, String> {
    let opened = engine::open(options, blocks(options)).map_err(|error| error.to_string())?;
    let store_options = StoreOptions { record_cache_bytes: 0, ..StoreOptions::default() };
    // If the list of files was rebuilt, it is unknown which files are missing.
    let anew = found.findings.iter().any(|finding| finding.contains("made anew"));
    let catalog_lost = anew || found.lost.iter().any(|lost| lost.space == nagi_kv::Space::Catalog);
    let salvaged = Store::salvage(opened, store_options, catalog_lost);
    let (store, salvaged) = salvaged.map_err(|error| error.to_string())?;
    store.close().map_err(|error| error.to_string())?;
    Ok(salvaged)
}

fn range(lost: &nagi_kv_rocks::Lost) -> String {
    LostRange { space: lost.space, from: &lost.from, to: lost.to.as_deref() }.to_string()
}

fn report(found: &Repair, salvaged: &Salvaged) -> String {
    let mut text = String::from("What nagi --repair found and did\n\nDamage:\n");
    // Writing to a string cannot fail.
    for finding in &found.findings {
        let _ = writeln!(text, "  {finding}");
    }
    let _ = writeln!(text, "\nKeys saved: {}\nRanges lost:", found.entries);
    for lost in &found.lost {
        let _ = writeln!(text, "  {}: {}", range(lost), lost.error);
    }
    let _ = writeln!(
        text,
        "\nDocuments lost according to the collections' counters: {}\nRecords that were not \
         documents, now in local.lost_and_found.*: {}\nCatalog entries lost: {}\nCollections \
         repaired:",
        salvaged.documents_lost, salvaged.corrupt_records, salvaged.catalog_entries_lost
    );
    for (namespace, errors) in &salvaged.repaired {
        let _ = writeln!(text, "  {namespace}");
        for error in errors {
            let _ = writeln!(text, "    {error}");
        }
    }
    for (title, list) in [
        ("Documents without a collection, now in", &salvaged.orphans),
        (
            "Indexes and options removed because the catalog could not be loaded with them",
            &salvaged.left_out,
        ),
        ("Indexes that could not be rebuilt", &salvaged.indexes_dropped),
    ] {
        let _ = writeln!(text, "{title}:");
        for line in list {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}
