//! Reading a log's file record by record, past what is not one.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use super::record::{self, BLOCK, COMPRESSOR, HEADER, Record, TRAILER_MAX};

/// What stands in a log's file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Extent {
    /// From the beginning to here there are records without a gap.
    pub(super) whole: u64,
    /// Records of this log behind that.
    pub(super) behind: u64,
}

/// Calls `visit` with each record of the log and whether something that is no record stands right
/// before it. Behind the first such place only records that name the log are taken: the file may have
/// been that of an older one.
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
            // The compressor stands at the beginning, without a number; elsewhere it is an older log's.
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
