//! Sizes of key ranges on disk and in the cache: asks RocksDB, and has `layout.rs` compute the rest.

use nagi_kv::{CachedSize, KeyRange, RangeSize, Result};

use crate::{db::Db, layout};

/// The bytes of a range, with those of memtables.
pub(crate) type AllBytes<'a> = dyn Fn(&KeyRange<'_>) -> Result<u64> + 'a;

/// See `Maintenance::range_sizes`.
pub(crate) fn on_disk(
    db: &Db,
    all: &AllBytes<'_>,
    ranges: &[KeyRange<'_>],
) -> Result<Vec<RangeSize>> {
    let files = db.live_files();
    let size = |range: &KeyRange<'_>| {
        let file_bytes = db.approximate_file_size(range.space, range.start, range.end)?;
        Ok(layout::size(&files, range, file_bytes, all(range)?))
    };
    ranges.iter().map(size).collect()
}

/// See `Maintenance::cached_sizes`.
pub(crate) fn in_memory(
    db: &Db,
    all: &AllBytes<'_>,
    ranges: &[KeyRange<'_>],
) -> Result<Vec<CachedSize>> {
    let files = db.live_files();
    let size = |range: &KeyRange<'_>| {
        let file_bytes = db.approximate_file_size(range.space, range.start, range.end)?;
        let tables = db.cached_tables(range.space, range.start, range.end)?;
        Ok(CachedSize {
            file_bytes: layout::cached(&files, range, file_bytes, &tables),
            unwritten_bytes: all(range)?.saturating_sub(file_bytes),
        })
    };
    ranges.iter().map(size).collect()
}
