//! Checks the file list (MANIFEST) before RocksDB reads it.
//!
//! ```text
//!   block of 32 KiB   | crc 4 | length 2 | type 1 | payload | crc ... | rest that holds no header |
//! ```
//! The file list is never recycled, so a record with a type of recycled logs is damage. RocksDB's reader neither
//! skips such a record nor fails, so a start or a repair would loop forever.

use std::{io::Read, path::Path};

use nagi_encryption::Keys;
use nagi_kv::{Error, Result};

use crate::encrypted::Content;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// RocksDB's `kRecyclable...` and `kRecycle...`.
const RECYCLED: &[u8] = &[5, 6, 7, 8, 11, 131];

/// Checks the types of the records. Files that cannot be read are left for RocksDB to reject.
///
/// # Errors
/// [`Error::Corrupt`] for a record of a recycled log, and for encrypted files without a valid header.
pub(super) fn check(files: &Path, keys: Option<&Keys>) -> Result<()> {
    let name = match (crate::closed::current(files, keys), keys) {
        (Ok(name), _) => name,
        // RocksDB would take it for a file with wrong options.
        (Err(error @ Error::Corrupt(_)), Some(_)) => return Err(error),
        (Err(_), _) => return Ok(()),
    };
    let mut file = match (Content::open(&files.join(&name), keys), keys) {
        (Ok(file), _) => file,
        (Err(error @ Error::Corrupt(_)), Some(_)) => return Err(error),
        (Err(_), _) => return Ok(()),
    };
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut before = 0;
    loop {
        block.clear();
        (&mut file).take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if let Some(at) = recycled(&block) {
            let place = files.join(name).display().to_string();
            return Err(Error::Corrupt(format!(
                "{place}: a record of a recycled log at {}",
                before + at
            )));
        }
        if block.len() < BLOCK_BYTES {
            return Ok(());
        }
        before += block.len();
    }
}

/// The offset of a record with a type of recycled logs, if the block has one.
fn recycled(block: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some([_, _, _, _, low, high, kind]) =
        block.get(at..).and_then(|rest| rest.first_chunk::<HEADER_BYTES>())
    {
        if RECYCLED.contains(kind) {
            return Some(at);
        }
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if length == 0 && *kind == 0 {
            return None;
        }
        at += HEADER_BYTES + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, len: usize) -> Vec<u8> {
        let mut out = vec![9, 9, 9, 9, len as u8, (len >> 8) as u8, kind];
        out.resize(out.len() + len, 5);
        out
    }

    #[test]
    fn types_of_recycled_logs_are_found_and_payloads_are_not_taken_for_headers() {
        let good = [record(1, 100), record(2, 300), record(4, 0)].concat();
        assert_eq!(recycled(&good), None);
        for kind in RECYCLED {
            let bad = [good.clone(), record(*kind, 3)].concat();
            assert_eq!(recycled(&bad), Some(good.len()));
        }
        let preallocated = [good, vec![0; 7], record(5, 3)].concat();
        assert_eq!(recycled(&preallocated), None);
        assert_eq!(recycled(&record(1, 100)[..50]), None);
    }
}
