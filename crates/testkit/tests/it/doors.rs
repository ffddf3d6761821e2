//! Rules over writes: the calls that change data are made in few places, and these are listed here.
//!
//! Code above the store cannot access the engine (`manifests`), so a call that bypasses `store::commit` can
//! only be in the store itself.
use nagi_testkit::tidy::{Breaches, Source, rust_sources};

/// A call, and the files of `crates/store/src` that may make it.
struct Door {
    call: &'static str,
    files: &'static [&'static str],
    instead: &'static str,
}

const DOORS: &[Door] = &[
    Door {
        // Transactions of the engine. `Store::commit` commits them, except the one that stores the stamp limit
        // (`stamps.rs`).
        call: "engine.begin(",
        files: &[
            "store/alone.rs",
            "store/ddl/mod.rs",
            "store/commit/stamps.rs",
            "store/transaction.rs",
            "store/txn/mod.rs",
            "store/commit/change.rs",
        ],
        instead: "Store::write or Ddl::begin",
    },
    Door {
        // Transactions before a store exists, after a drop, in a folder that is being salvaged, and of a node's lease.
        call: "on.begin(",
        files: &[
            "catalog/persist.rs",
            "store/reclaim.rs",
            "repair/salvage/mod.rs",
            "node/enter.rs",
        ],
        instead: "Store::write or Ddl::begin",
    },
    Door {
        call: ".commit(durability).map_err(engine)",
        files: &["store/commit/stamps.rs"],
        instead: "Store::commit, which keeps stamps growing",
    },
    Door {
        // The bytes of a document: `put_record`, `delete`, and repair's `take_out`.
        call: "(collection.space, ",
        files: &["store/txn/records.rs"],
        instead: "WriteTxn::{insert, update, delete}",
    },
    Door {
        // The log matches on it.
        call: "Change::Document {",
        files: &["store/txn/records.rs", "store/change_log/mod.rs"],
        instead: "WriteTxn::change",
    },
    Door {
        call: "Change::Catalog {",
        files: &["store/ddl/mod.rs", "store/transaction.rs", "store/change_log/mod.rs"],
        instead: "Ddl::change",
    },
    Door {
        call: "Space::Changes",
        files: &[
            "node/listing.rs",
            "store/change_log/listed.rs",
            "store/change_log/trim_lists.rs",
            "store/commit/change.rs",
            "store/change_log/read.rs",
            "store/change_log/retain.rs",
            "store/ddl/shown_logs.rs",
            "upkeep.rs",
        ],
        instead: "Store::log_change, or LogReader",
    },
];

/// The methods by which a transaction of the engine writes documents.
const WRITES: [&str; 2] = [".put(", ".delete("];

#[test]
fn every_change_passes_the_door() {
    let mut breaches = Breaches::default();
    let mut met = vec![0; DOORS.len()];
    for Source { path, text } in rust_sources() {
        let Some(file) = path.strip_prefix("crates/store/src/") else { continue };
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (door, met) in DOORS.iter().zip(&mut met) {
                if code.contains(door.call) && is_meant(door, code) {
                    *met += 1;
                    if !door.files.contains(&file) {
                        let what = format!("`{}`: go through {}", door.call, door.instead);
                        breaches.add(&path, Some(index + 1), what);
                    }
                }
            }
        }
    }
    for (door, met) in DOORS.iter().zip(met) {
        if met < door.files.len() {
            breaches.add(
                "crates/testkit/tests/it/doors.rs",
                None,
                format!("`{}` is nowhere", door.call),
            );
        }
    }
    breaches.finish("one door for writes");
}

/// Returns true if the rule applies to this line: the space of a collection is also used to read and measure
/// records.
fn is_meant(door: &Door, code: &str) -> bool {
    !door.call.contains(".space") || WRITES.iter().any(|write| code.contains(write))
}
