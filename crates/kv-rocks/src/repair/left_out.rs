//! Takes tables that cannot be opened out of the list of files, so that all others are read at their levels.
//!
//! A table whose footer, index or properties are damaged makes every read of its range fail. Without it older versions
//! of what it held become visible, and what it deleted. RocksDB's own repair does not keep the levels, and leaves out
//! each table with any unreadable block.
//!
//! ```text
//!   record of the list of files:   200 family | 6 level, number | 6 level, number | ...      all numbers as varints
//! ```

use std::{collections::BTreeMap, path::Path};

use nagi_kv::Result;

use super::{Lost, Repair, system};
use crate::{
    Options, closed,
    db::{Db, LiveFile, table_opens},
    encrypted::Environment,
    wal,
};

/// `kColumnFamily` and `kDeletedFile` of RocksDB's `VersionEdit`.
const FAMILY: u64 = 200;
const DELETED_FILE: u64 = 6;

/// Changes the list of files in `work`, and tells what is left out. Returns false if every table can be opened, or if
/// the list itself cannot be used.
pub(super) fn leave_out(
    work: &Path,
    options: &Options,
    environment: Option<&Environment>,
    repair: &mut Repair,
) -> Result<bool> {
    let Ok(db) = Db::open(work, options, &system(work, true)) else { return Ok(false) };
    let files = db.live_files();
    let opens = |file: &LiveFile| table_opens(&work.join(&file.name), environment);
    let closed = files.into_iter().filter(|file| !opens(file));
    let closed: Vec<(u32, LiveFile)> =
        closed.map(|file| (db.family_number(file.space), file)).collect();
    // It writes to its list until it is closed.
    drop(db);
    let mut edits: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (family, file) in &closed {
        let Some(number) = number_of(&file.name) else { return Ok(false) };
        let edit = edits.entry(*family).or_insert_with(|| {
            let mut edit = Vec::new();
            put_varint(FAMILY, &mut edit);
            put_varint(u64::from(*family), &mut edit);
            edit
        });
        for part in [DELETED_FILE, file.level as u64, number] {
            put_varint(part, edit);
        }
    }
    let list = work.join(closed::current(work, options.keys())?);
    for edit in edits.values() {
        wal::append_record(&list, edit, options.keys())?;
    }
    for (_, file) in &closed {
        repair.findings.push(format!(
            "{} cannot be opened: what was last changed in it is lost or older",
            file.name
        ));
        repair.lost.push(Lost {
            space: file.space,
            from: file.smallest.clone(),
            to: Some([&file.largest[..], &[0]].concat()),
            saved: 0,
            error: format!("{} cannot be opened", file.name),
        });
    }
    Ok(!closed.is_empty())
}

/// `000012.sst` has the number 12.
fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".sst")?.parse().ok()
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
