//! Changes to valid bytes, as the input of a target describes them: so that inputs get past the first check.

/// Applies the edits of `input`, four bytes each: operation, position, value. Returns true if the bytes are others then.
pub fn apply(input: &[u8], bytes: &mut Vec<u8>) -> bool {
    let before = bytes.clone();
    for edit in input.chunks_exact(4).take(16) {
        let [operation, high, low, value] = [edit[0], edit[1], edit[2], edit[3]];
        if bytes.is_empty() {
            bytes.push(value);
            continue;
        }
        let at = usize::from(u16::from_be_bytes([high, low])) % bytes.len();
        match operation % 8 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, value),
            2 => drop(bytes.remove(at)),
            3 => bytes[at] = value,
            4 => bytes[at] = bytes[at].wrapping_add(value),
            5 => bytes[at] ^= 1 << (value % 8),
            // A part twice.
            6 => {
                let part = bytes[at..bytes.len().min(at + usize::from(value))].to_vec();
                bytes.splice(at..at, part);
            }
            // A long run, as a length that lies needs.
            _ => drop(bytes.splice(at..at, std::iter::repeat_n(value, 64 * usize::from(value)))),
        }
    }
    *bytes != before
}
