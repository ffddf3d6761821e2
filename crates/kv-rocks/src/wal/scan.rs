//! Reads a log file record by record and skips invalid bytes.

use std::{io::Read, path::Path};

use nagi_encryption::Keys;
use nagi_kv::Result;

use super::record::{self, BLOCK, COMPRESSOR, HEADER, Record, TRAILER_MAX};
use crate::encrypted::Content;

/// The records in a log file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Extent {
    /// Up to here there are records without a gap: an offset in the file, whose header, if it is encrypted, counts.
    pub(super) whole: u64,
    /// Bytes of this log's records after that.
    pub(super) behind: u64,
}

/// Calls `visit` with each record of the log, and with true if invalid bytes precede it. After the first invalid
/// bytes only records that name the log are accepted, because the file may contain an older log.
///
/// # Errors
/// `Corrupt` for an encrypted log without a valid header; errors of the file system.
pub(super) fn scan(
    path: &Path,
    number: u64,
    keys: Option<&Keys>,
    visit: &mut dyn FnMut(&Record<'_>, bool),
) -> Result<Extent> {
    let mut file = Content::open_log(path, keys)?;
    let begin = file.begin();
    let mut extent = Extent { whole: begin, behind: 0 };
    let (mut broken, mut gap) = (false, false);
    let mut block = Vec::with_capacity(BLOCK);
    let mut block_at = 0;
    loop {
        block.clear();
        (&mut file).take(BLOCK as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(extent);
        }
        let mut at = 0;
        while at + HEADER <= block.len() {
            let found = record::parse(&block[at..], number, broken);
            // The compressor's record is at the beginning, without a number; elsewhere it belongs to an older log.
            let first = block_at == 0 && at == 0;
            let taken = found.filter(|record| record.kind != COMPRESSOR || first);
            if let Some(record) = taken {
                visit(&record, gap);
                gap = false;
                at += record.byte_count;
                match broken {
                    true => extent.behind += 1,
                    false => extent.whole = begin + block_at + at as u64,
                }
                continue;
            }
            let trailer = block.len() == BLOCK && BLOCK - at < TRAILER_MAX;
            if !trailer {
                (broken, gap) = (true, true);
            }
            at += 1;
        }
        block_at += block.len() as u64;
    }
}
