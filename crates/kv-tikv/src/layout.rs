//! Where keys and values are in the store.
//!
//! ```text
//!   prefix 00 00                                   the format's version (format.rs)
//!   prefix 00 01 table key                         head: mark 0 and the value, or mark 1 and its length
//!   prefix 00 02 table ordered(key) number         pieces of values that do not fit into their heads
//!   prefix 00 01 05 session key                    the space of spills, which belongs to one process
//! ```
//!
//! Index keys may be longer, see cut.rs. Heads are small, so that a page of a scan has bounded bytes although the store
//! bounds only the number of its entries. `ordered` is an encoding in which no key is the beginning of another one, so
//! that the pieces of a range of keys are a range, too. The reasons are in docs/decisions/096.

use nagi_kv::{Error, Result, Space};

use crate::{cut, limits::INLINE_BYTES_MAX};

/// The longest value.
pub(crate) const VALUE_BYTES_MAX: usize = 32 << 20;
/// Bytes of each piece but the last one. The store refuses entries of its log of about 8 MB.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

/// The longest value of a space. Those of index entries are record keys and types, which are no longer than keys.
pub(crate) fn value_bytes_max(space: Space) -> usize {
    match space {
        Space::Counters | Space::Index => INLINE_BYTES_MAX,
        _ => VALUE_BYTES_MAX,
    }
}

/// True if no value of the space has pieces, so that a value can be replaced without being read.
pub(crate) fn has_small_values(space: Space) -> bool {
    value_bytes_max(space) <= INLINE_BYTES_MAX
}

const AREA_FORMAT: u8 = 0;
const AREA_HEADS: u8 = 1;
const AREA_PIECES: u8 = 2;
const MARK_INLINE: u8 = 0;
const MARK_LARGE: u8 = 1;
const GROUP: usize = 8;

/// The keys of one prefix.
pub(crate) struct Layout {
    /// The prefix and a zero byte: less than any byte of a longer prefix, so prefixes are apart.
    root: Vec<u8>,
    session: [u8; 8],
}

/// A range of stored keys: from the first to before the second.
pub(crate) type Range = (Vec<u8>, Vec<u8>);

impl Layout {
    /// `session`: different for each process.
    pub(crate) fn new(prefix: &str, session: u64) -> Layout {
        Layout { root: [prefix.as_bytes(), &[0]].concat(), session: session.to_be_bytes() }
    }

    /// The key of the format's version.
    pub(crate) fn format_key(&self) -> Vec<u8> {
        self.with(&[AREA_FORMAT])
    }

    /// Every key of the prefix.
    pub(crate) fn all(&self) -> Range {
        let mut end = self.root.clone();
        if let Some(last) = end.last_mut() {
            *last = 1;
        }
        (self.root.clone(), end)
    }

    fn with(&self, rest: &[u8]) -> Vec<u8> {
        [&self.root[..], rest].concat()
    }

    /// What stands before a user's key in its head's key.
    fn table(&self, area: u8, space: Space) -> Vec<u8> {
        let mut table = self.with(&[area, space.table() as u8]);
        if space == Space::Spill {
            table.extend_from_slice(&self.session);
        }
        table
    }

    /// The length of what stands before a user's key in its head's key.
    pub(crate) fn skip(&self, space: Space) -> usize {
        self.root.len() + 2 + if space == Space::Spill { self.session.len() } else { 0 }
    }

    /// The key of a head.
    pub(crate) fn head(&self, space: Space, key: &[u8]) -> Vec<u8> {
        let mut stored = self.table(AREA_HEADS, space);
        cut::append(space, key, &mut stored);
        stored
    }

    /// Where the keys that are not less than this one begin. If it is in a group, that is the beginning of the group.
    pub(crate) fn from(&self, space: Space, key: &[u8]) -> Vec<u8> {
        match cut::group(key).filter(|_| cut::is_cut_in(space)) {
            Some(group) => [&self.head(space, group)[..], &[0]].concat(),
            None => self.head(space, key),
        }
    }

    /// Where the keys that are less than this one end. If it is in a group, that is the end of the group.
    pub(crate) fn before(&self, space: Space, key: &[u8]) -> Vec<u8> {
        match cut::group(key).filter(|_| cut::is_cut_in(space)) {
            Some(group) => after(self.head(space, group)),
            None => self.head(space, key),
        }
    }

    /// The heads of the keys in `[start, end)`; an empty `end` means no upper bound. A bound in a group has all of it.
    pub(crate) fn heads(&self, space: Space, start: &[u8], end: &[u8]) -> Range {
        let end = match end {
            [] => after(self.table(AREA_HEADS, space)),
            end => self.before(space, end),
        };
        (self.from(space, start), end)
    }

    /// The key of a piece of a value.
    pub(crate) fn piece(&self, space: Space, key: &[u8], number: u32) -> Vec<u8> {
        let mut stored = self.table(AREA_PIECES, space);
        ordered(key, &mut stored);
        stored.extend_from_slice(&number.to_be_bytes());
        stored
    }

    /// The pieces of the keys in `[start, end)`.
    pub(crate) fn pieces(&self, space: Space, start: &[u8], end: &[u8]) -> Range {
        let bound = |key: &[u8]| {
            let mut stored = self.table(AREA_PIECES, space);
            ordered(key, &mut stored);
            stored
        };
        let end = match end {
            [] => after(self.table(AREA_PIECES, space)),
            end => bound(end),
        };
        (if start.is_empty() { self.table(AREA_PIECES, space) } else { bound(start) }, end)
    }
}

/// The least key that is greater than all that begin with these bytes, which are not all 255.
pub(crate) fn after(mut begin: Vec<u8>) -> Vec<u8> {
    while let Some(last) = begin.pop() {
        if last < u8::MAX {
            begin.push(last + 1);
            return begin;
        }
    }
    begin
}

/// Appends a key in groups of eight bytes, each with a ninth that tells how many count; the encoding that the store
/// itself uses for its keys and the bounds of its regions.
pub(crate) fn ordered(key: &[u8], into: &mut Vec<u8>) {
    for at in (0..=key.len()).step_by(GROUP) {
        let group = &key[at..key.len().min(at + GROUP)];
        into.extend_from_slice(group);
        let padding = GROUP - group.len();
        into.resize(into.len() + padding, 0);
        into.push(u8::MAX - padding as u8);
    }
}

/// Reverses `ordered`; none if the bytes are not of this encoding.
pub(crate) fn unordered(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(bytes.len());
    loop {
        let (group, rest) = bytes.split_at_checked(GROUP + 1)?;
        let count = GROUP.checked_sub(usize::from(u8::MAX - group[GROUP]))?;
        key.extend_from_slice(&group[..count]);
        if count < GROUP {
            return rest.is_empty().then_some(key);
        }
        bytes = rest;
    }
}

/// The content of a head.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Head<'h> {
    Inline(&'h [u8]),
    /// The bytes of a value that is in pieces.
    Large(usize),
}

/// Reads a head.
///
/// # Errors
/// `Corrupt` if it is none.
pub(crate) fn head_of(stored: &[u8]) -> Result<Head<'_>> {
    match stored.split_first() {
        Some((&MARK_INLINE, value)) => Ok(Head::Inline(value)),
        Some((&cut::MARK_CUT, both)) => {
            cut::split(both).map(|(_, value)| Head::Inline(value)).ok_or_else(damaged)
        }
        Some((&MARK_LARGE, length)) => {
            let bytes = length.try_into().ok().map(u64::from_be_bytes);
            let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
            bytes.filter(|bytes| *bytes <= VALUE_BYTES_MAX).map(Head::Large).ok_or_else(damaged)
        }
        _ => Err(damaged()),
    }
}

fn damaged() -> Error {
    Error::Corrupt("a value in the store has an unknown form".into())
}

/// The head of the value of a key.
pub(crate) fn head_for(space: Space, key: &[u8], value: &[u8]) -> Vec<u8> {
    cut::new_head(space, key, value).unwrap_or_else(|| new_head(value))
}

fn new_head(value: &[u8]) -> Vec<u8> {
    match pieces_of(value.len()) {
        0 => [&[MARK_INLINE], value].concat(),
        _ => [&[MARK_LARGE][..], &(value.len() as u64).to_be_bytes()].concat(),
    }
}

/// The number of pieces of a value with so many bytes: none if it is in its head.
pub(crate) fn pieces_of(bytes: usize) -> u32 {
    if bytes <= INLINE_BYTES_MAX { 0 } else { bytes.div_ceil(PIECE_BYTES) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::KEY_BYTES_MAX;

    fn encoded(key: &[u8]) -> Vec<u8> {
        let mut into = Vec::new();
        ordered(key, &mut into);
        into
    }

    #[test]
    fn the_ordered_form_keeps_the_order_and_has_no_prefixes() {
        let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0; 7], vec![0; 8], vec![0; 9]];
        keys.extend([vec![0, 1], vec![1], vec![255; 8], vec![255; 16], b"a long key".to_vec()]);
        keys.sort();
        for pair in keys.windows(2) {
            let (one, two) = (encoded(&pair[0]), encoded(&pair[1]));
            assert!(one < two && !two.starts_with(&one), "{pair:?}");
        }
        for key in &keys {
            assert_eq!(unordered(&encoded(key)).as_ref(), Some(key));
        }
        for bad in [&[][..], &[0; 8], &[1, 2, 3, 4, 5, 6, 7, 8, 3], &[0; 9]] {
            assert_eq!(unordered(bad), None, "{bad:?}");
        }
        let twice = [encoded(b"a"), encoded(b"b")].concat();
        assert_eq!(unordered(&twice), None, "bytes after the end");
    }

    #[test]
    fn pieces_of_a_range_of_keys_are_a_range() {
        let layout = Layout::new("p", 1);
        let (start, end) = layout.pieces(Space::Records, b"b", b"b\0");
        for (key, inside) in [(&b"b"[..], true), (b"a", false), (b"b\0", false), (b"b\0\0", false)]
        {
            for number in [0, 9, u32::MAX] {
                let piece = layout.piece(Space::Records, key, number);
                assert_eq!(start <= piece && piece < end, inside, "{key:?} {number}");
            }
        }
        let (start, end) = layout.pieces(Space::Records, b"", b"");
        let piece = layout.piece(Space::Records, &[255; 20], u32::MAX);
        assert!(start <= piece && piece < end);
    }

    #[test]
    fn prefixes_spaces_and_sessions_are_apart() {
        let (one, longer) = (Layout::new("app", 1), Layout::new("app2", 1));
        let (start, end) = one.all();
        for key in
            [longer.format_key(), longer.head(Space::Index, b""), Layout::new("ap", 1).format_key()]
        {
            assert!(key < start || key >= end);
        }
        for key in [one.format_key(), one.piece(Space::RecordsLz4, &[255; 9], u32::MAX)] {
            assert!(start <= key && key < end);
        }
        let (_, end) = one.heads(Space::Catalog, b"", b"");
        assert!(end <= one.heads(Space::Records, b"", b"").0);
        let spill = |session| Layout::new("app", session).heads(Space::Spill, b"", b"");
        assert!(spill(1).1 <= spill(2).0, "sessions do not see each other");
        assert_eq!(&one.head(Space::Spill, b"k")[one.skip(Space::Spill)..], b"k");
    }

    #[test]
    fn heads_are_read_again_and_others_refused() {
        assert_eq!(head_of(&new_head(b"")).expect("a head"), Head::Inline(b""));
        let large = vec![7; INLINE_BYTES_MAX + 1];
        assert_eq!(head_of(&new_head(&large)).expect("a head"), Head::Large(large.len()));
        assert_eq!((pieces_of(INLINE_BYTES_MAX), pieces_of(large.len())), (0, 1));
        assert_eq!(pieces_of(PIECE_BYTES + 1), 2);
        for bad in [
            &[][..],
            &[9, 9],
            &[1],
            &[1, 0, 0, 0, 0, 255, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0, 1, 1],
        ] {
            assert!(matches!(head_of(bad), Err(Error::Corrupt(_))), "{bad:?}");
        }
    }

    #[test]
    fn the_longest_key_of_a_piece_fits_the_store() {
        let layout = Layout::new(&"x".repeat(32), 1);
        let longest = layout.piece(Space::Spill, &[0; KEY_BYTES_MAX], 0);
        assert!(encoded(&longest).len() <= 8 << 10, "{}", encoded(&longest).len());
    }
}
