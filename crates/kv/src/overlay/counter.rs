//! Counter values: arrays of little-endian i64 that are added element by element.

/// Adds `deltas` to the counter in `sum`, which grows as needed. Sums wrap, because a commit must not fail for a
/// counter that exceeds 64 bits.
pub(super) fn add_deltas(sum: &mut Vec<u8>, deltas: &[i64]) {
    for (index, delta) in deltas.iter().enumerate() {
        add_one(sum, index, *delta);
    }
}

/// Adds the counter `deltas` to the counter in `sum`, which grows as needed. A trailing part of
/// fewer than eight bytes is ignored.
pub fn add_counters(sum: &mut Vec<u8>, deltas: &[u8]) {
    let (deltas, _) = deltas.as_chunks::<8>();
    for (index, delta) in deltas.iter().enumerate() {
        add_one(sum, index, i64::from_le_bytes(*delta));
    }
}

fn add_one(sum: &mut Vec<u8>, index: usize, delta: i64) {
    let end = (index + 1) * 8;
    if sum.len() < end {
        sum.resize(end, 0);
    }
    let (elements, _) = sum.as_chunks_mut::<8>();
    let element = &mut elements[index];
    *element = i64::from_le_bytes(*element).wrapping_add(delta).to_le_bytes();
}
