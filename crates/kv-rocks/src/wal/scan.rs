//! Reads a log file record by record and skips invalid bytes.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use super::record::{self, BLOCK, COMPRESSOR, HEADER, Record, TRAILER_MAX};

/// The records in a log file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Extent {
    /// Up to here there are records without a gap.
    pub(super) whole: u64,
    /// Bytes of this log's records after that.
    pub(super) behind: u64,
}

/// Calls `visit` with each record of the log, and with true if invalid bytes precede it. After the first invalid
/// bytes only records that name the log are accepted, because the file may contain an older log.
pub(super) fn scan(
    path: &Path,
    number: u64,
    visit: &mut dyn FnMut(&Record<'_>, bool),
) -> io::Result<Extent> {
    let mut file = File::open(path)?;
    let mut extent = Extent::default();
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
                    false => extent.whole = block_at + at as u64,
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
