//! Counters in parts: each commit adds to the part with the number of its fence, which no other commit is writing, so
//! additions never conflict. The value is the sum of the parts.
//!
//!   Counters   key | number of the fence (2 bytes, big-endian)
//!
//! No key of a counter begins with another one.

use nagi_kv::{Error, Read, Result, Space, overlay::add_counters};

/// Behind the keys of all parts.
const END: [u8; 3] = [0xFF; 3];

pub(super) fn part(key: &[u8], number: u16) -> Vec<u8> {
    [key, &number.to_be_bytes()].concat()
}

/// Reads the sum of all parts and of `own`, deltas that are not stored yet, into `sum`. Returns false if there is
/// nothing. Costs a scan of as many entries as there were overlapping commits.
pub(super) fn read<'d>(
    from: &(impl Read + ?Sized),
    key: &[u8],
    own: impl Iterator<Item = &'d [i64]>,
    sum: &mut Vec<u8>,
) -> Result<bool> {
    sum.clear();
    let mut is_there = false;
    each(from, key, &mut |_, value| {
        is_there = true;
        add_counters(sum, value);
    })?;
    for deltas in own {
        is_there = true;
        let bytes: Vec<u8> = deltas.iter().flat_map(|delta| delta.to_le_bytes()).collect();
        add_counters(sum, &bytes);
    }
    Ok(is_there)
}

/// The keys of all parts.
pub(super) fn parts(from: &(impl Read + ?Sized), key: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    each(from, key, &mut |key, _| keys.push(key.to_vec()))?;
    Ok(keys)
}

fn each(
    from: &(impl Read + ?Sized),
    key: &[u8],
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<()> {
    if key.is_empty() {
        return Err(Error::other("a counter has a key"));
    }
    let end = [key, &END].concat();
    let mut cursor = from.cursor(Space::Counters, key, &end)?;
    let mut found = cursor.seek(key)?;
    while found {
        visit(cursor.key(), cursor.value());
        found = cursor.next()?;
    }
    Ok(())
}
