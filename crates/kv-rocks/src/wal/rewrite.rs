//! Rewrites a damaged log: keeps every batch whose parts can all be read, without gaps.
//!
//! At damage, RocksDB skips the rest of a block of 32 KiB. The copy for a repair has no damage left, so only the
//! batch that contained the damage is missing.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use nagi_encryption::Keys;
use nagi_kv::{Error, Result};

use super::{
    record::{self, BLOCK, COMPRESSOR, HEADER, Part, Record},
    scan::scan,
};
use crate::encrypted;

/// The first bytes of a compressed batch.
const ZSTD_FRAME: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// The record that names the compressor, which may be the damaged one.
const ZSTD: &[u8] = &[7, 0, 0, 0];

/// Rewrites each log in `files` that has records after invalid bytes. An encrypted log without a valid header has
/// nothing that can be read: it is removed. Returns what is said of such logs.
pub(crate) fn rewrite(files: &Path, keys: Option<&Keys>) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (number, path) in super::logs(files)? {
        match scan(&path, number, keys, &mut |_, _| {}) {
            Ok(extent) if extent.behind > 0 => {
                let bytes = whole_batches(&path, number, keys)?;
                encrypted::replace(&path, &temporary(&path), bytes, keys)?;
            }
            Ok(_) => {}
            Err(Error::Corrupt(text)) => {
                fs::remove_file(&path)?;
                findings.push(format!("{text}: what was written to this log only is lost"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("rewritten")
}

/// The log with its whole batches only, for a reader that does not expect log numbers.
fn whole_batches(path: &Path, number: u64, keys: Option<&Keys>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut has_compressor = false;
    // The parts read so far of a batch that has several records.
    let mut batch: Option<Vec<u8>> = None;
    scan(path, number, keys, &mut |record: &Record<'_>, gap| {
        if gap {
            batch = None;
        }
        match record.part() {
            Part::Other => {
                if record.kind == COMPRESSOR {
                    has_compressor = true;
                    record::append(&mut out, COMPRESSOR, record.payload);
                }
                return;
            }
            Part::Full | Part::First => batch = Some(record.payload.to_vec()),
            Part::Middle | Part::Last => {
                let Some(batch) = &mut batch else { return };
                batch.extend_from_slice(record.payload);
            }
        }
        if matches!(record.part(), Part::Full | Part::Last)
            && let Some(batch) = batch.take()
        {
            if out.is_empty() && !has_compressor && batch.starts_with(ZSTD_FRAME) {
                record::append(&mut out, COMPRESSOR, ZSTD);
            }
            push(&mut out, &batch);
        }
    })?;
    Ok(out)
}

/// Appends a record to a file in the format of logs, in which RocksDB also keeps its list of files. Durable on return.
pub(crate) fn append_record(file: &Path, payload: &[u8], keys: Option<&Keys>) -> Result<()> {
    let mut bytes = encrypted::read(file, keys)?;
    let before = bytes.len();
    push(&mut bytes, payload);
    if keys.is_some() {
        // The file may be a copy: its key must not encrypt anything that the original does not have.
        return encrypted::replace(file, &temporary(file), bytes, keys);
    }
    let mut file = fs::OpenOptions::new().append(true).open(file)?;
    file.write_all(&bytes[before..])?;
    Ok(file.sync_all()?)
}

/// Appends a batch as RocksDB would: in as many records as the blocks require.
fn push(out: &mut Vec<u8>, mut batch: &[u8]) {
    let mut begin = true;
    loop {
        let left = BLOCK - out.len() % BLOCK;
        if left < HEADER {
            out.resize(out.len() + left, 0);
            continue;
        }
        let (part, rest) = batch.split_at(batch.len().min(left - HEADER));
        let kind = match (begin, rest.is_empty()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        record::append(out, kind, part);
        if rest.is_empty() {
            return;
        }
        (begin, batch) = (false, rest);
    }
}
