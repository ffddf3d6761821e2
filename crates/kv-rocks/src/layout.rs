//! Computes the layout of key ranges in table files: their size, their reclaimable part, and the pieces in which to
//! rewrite them. Pure arithmetic over a list of files.
//!
//! A file has keys of many collections. So the share of a range in a file that exceeds it is an estimate: the
//! engine's estimate for the range, minus the files that are entirely within the range.
//!
//! Reclaimable bytes: of the entries in a range's files, `puts` are values. If `live` keys exist, the other puts
//! were replaced or removed. Without that number, each deletion is assumed to remove one put.

use std::collections::HashMap;

use nagi_kv::{KeyRange, RangeSize};

use crate::db::LiveFile;

/// A piece is rewritten in a second or a few.
const PIECE_BYTES: u64 = 64 << 20;

/// A part of a range that is rewritten at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) start: Vec<u8>,
    /// Its last key, or a bound just after it that is not a key.
    pub(crate) last: Vec<u8>,
    pub(crate) byte_count: u64,
}

fn overlaps(file: &LiveFile, range: &KeyRange<'_>) -> bool {
    file.space == range.space
        && file.largest.as_slice() >= range.start
        && (range.end.is_empty() || file.smallest.as_slice() < range.end)
}

fn is_within(file: &LiveFile, range: &KeyRange<'_>) -> bool {
    file.smallest.as_slice() >= range.start
        && (range.end.is_empty() || file.largest.as_slice() < range.end)
}

/// The size of a range. `file_bytes` and `bytes` are the engine's estimates without and with unflushed data.
pub(crate) fn size(
    files: &[LiveFile],
    range: &KeyRange<'_>,
    file_bytes: u64,
    bytes: u64,
) -> RangeSize {
    let overlapping = || files.iter().filter(|file| overlaps(file, range));
    let whole: u64 =
        overlapping().filter(|file| is_within(file, range)).map(|file| file.byte_count).sum();
    let partial: u64 =
        overlapping().filter(|file| !is_within(file, range)).map(|file| file.byte_count).sum();
    let of_partial = file_bytes.saturating_sub(whole).min(partial) as f64 / partial.max(1) as f64;
    let (mut puts, mut deletions) = (0.0, 0.0);
    for file in overlapping() {
        let share = if is_within(file, range) { 1.0 } else { of_partial };
        deletions += share * file.deletion_count as f64;
        puts += share * file.entry_count.saturating_sub(file.deletion_count) as f64;
    }
    let live = range.live_count.map_or(puts - deletions, |count| count as f64).max(0.0);
    let waste = if puts > live { 1.0 - live / puts } else { 0.0 };
    RangeSize {
        bytes,
        reclaimable_bytes: (file_bytes as f64 * waste) as u64,
        file_count: overlapping().count() as u64,
    }
}

/// The bytes of a range in the cache, of which `tables` has the bytes by file. Of a file that is not within the range,
/// the range has the same share as of the file's bytes.
pub(crate) fn cached(
    files: &[LiveFile],
    range: &KeyRange<'_>,
    file_bytes: u64,
    tables: &HashMap<String, u64>,
) -> u64 {
    let (mut whole, mut partial, mut cached, mut shared) = (0, 0, 0, 0);
    for file in files.iter().filter(|file| overlaps(file, range)) {
        let bytes = tables.get(&file.name).copied().unwrap_or(0);
        match is_within(file, range) {
            true => (whole, cached) = (whole + file.byte_count, cached + bytes),
            false => (partial, shared) = (partial + file.byte_count, shared + bytes),
        }
    }
    let of_partial = file_bytes.saturating_sub(whole).min(partial) as f64 / partial.max(1) as f64;
    cached + (shared as f64 * of_partial) as u64
}

/// Divides a range at the boundaries of files of the deepest level, so that no two pieces rewrite one of these
/// files.
pub(crate) fn pieces(files: &[LiveFile], range: &KeyRange<'_>) -> Vec<Piece> {
    let mut files: Vec<_> = files.iter().filter(|file| overlaps(file, range)).collect();
    files.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let deepest = files.iter().map(|file| file.level).max().unwrap_or(0);
    let mut pieces = Vec::new();
    let mut start = range.start.to_vec();
    let mut byte_count = 0;
    for file in &files {
        let cuts = file.level == deepest && file.smallest.as_slice() > start.as_slice();
        if cuts && byte_count >= PIECE_BYTES {
            pieces.push(Piece { start, last: just_before(&file.smallest), byte_count });
            start = file.smallest.clone();
            byte_count = 0;
        }
        byte_count += file.byte_count;
    }
    // Also without any file: the memtables may contain only removals.
    let last = match range.end {
        [] => files.iter().map(|file| file.largest.clone()).max().unwrap_or_default(),
        end => just_before(end),
    };
    pieces.push(Piece { start, last, byte_count });
    pieces
}

/// A key slightly less than `key`.
fn just_before(key: &[u8]) -> Vec<u8> {
    let mut before = key.to_vec();
    if let Some(last @ 1..) = before.pop() {
        before.push(last - 1);
        before.extend_from_slice(&[0xff; 16]);
    }
    before
}

#[cfg(test)]
mod tests {
    use nagi_kv::Space;

    use super::*;

    fn file(level: i32, smallest: u8, largest: u8, megabytes: u64, puts: u64) -> LiveFile {
        LiveFile {
            name: String::new(),
            space: Space::Records,
            level,
            byte_count: megabytes << 20,
            smallest: vec![smallest],
            largest: vec![largest],
            entry_count: puts,
            deletion_count: 0,
        }
    }

    fn range(start: &'static [u8], end: &'static [u8], live: Option<u64>) -> KeyRange<'static> {
        KeyRange { space: Space::Records, start, end, live_count: live }
    }

    #[test]
    fn waste_is_what_is_not_live() {
        let mut files = [file(6, 1, 4, 60, 1000), file(6, 5, 9, 60, 1000)];
        let all = range(&[1], &[10], Some(500));
        assert_eq!(size(&files, &all, 120 << 20, 120 << 20).reclaimable_bytes, 90 << 20);
        assert_eq!(size(&files, &range(&[1], &[5], Some(2000)), 60 << 20, 0).reclaimable_bytes, 0);
        files[1].entry_count = 1500;
        files[1].deletion_count = 500;
        let unknown = size(&files, &range(&[1], &[10], None), 120 << 20, 0);
        assert_eq!(unknown.reclaimable_bytes, 30 << 20);
        assert_eq!(unknown.file_count, 2);
        assert_eq!(size(&[], &all, 0, 77), RangeSize { bytes: 77, ..RangeSize::default() });
    }

    #[test]
    fn a_shared_file_is_in_the_cache_for_all_its_ranges() {
        let named = |name: &str, file: LiveFile| LiveFile { name: name.to_owned(), ..file };
        let files = [named("a", file(6, 1, 4, 60, 9)), named("b", file(6, 5, 9, 60, 9))];
        let tables = HashMap::from([("a".to_owned(), 1000), ("b".to_owned(), 500)]);
        // The range has the file `a`, and half of `b`.
        assert_eq!(cached(&files, &range(&[1], &[7], None), 90 << 20, &tables), 1250);
        assert_eq!(cached(&files, &range(&[5], &[10], None), 60 << 20, &tables), 500);
        assert_eq!(cached(&files, &range(&[10], &[11], None), 0, &tables), 0);
    }

    #[test]
    fn pieces_cover_the_range_and_share_no_deep_file() {
        let files: Vec<_> = (0..20).map(|n| file(6, n * 5, n * 5 + 4, 32, 1)).collect();
        let cut = pieces(&files, &range(&[0], &[100], None));
        assert_eq!(cut.len(), 10);
        assert_eq!(cut[0].start, [0]);
        assert!(cut[0].last.as_slice() > &[9][..] && cut[0].last.as_slice() < &[10][..]);
        assert_eq!(cut[1].start, [10]);
        assert_eq!(cut.iter().map(|piece| piece.byte_count).sum::<u64>(), 640 << 20);
        assert_eq!(pieces(&[], &range(&[3], &[4], None)).len(), 1);
    }
}
