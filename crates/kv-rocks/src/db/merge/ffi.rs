//! The function that C++ calls.
#![expect(unsafe_code)]

use std::{
    ffi::{c_char, c_void},
    slice,
};

use nagi_kv::difference::{self, LOST};

#[repr(C)]
struct Bytes {
    data: *const c_char,
    length: usize,
}

unsafe extern "C" {
    fn nagi_string_assign(string: *mut c_void, data: *const c_char, length: usize);
}

impl Bytes {
    /// None for an absent value.
    ///
    /// SAFETY: the bytes are readable for `'a`.
    unsafe fn get<'a>(&self) -> Option<&'a [u8]> {
        // SAFETY: promised by the caller.
        (!self.data.is_null())
            .then(|| unsafe { slice::from_raw_parts(self.data.cast(), self.length) })
    }
}

/// Applies the differences, oldest first, and assigns the newest value to the string `out`.
///
/// SAFETY: there are `count` differences; all bytes are readable, and the string is only used by this call.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_merge(
    older: Bytes,
    differences: *const Bytes,
    count: usize,
    out: *mut c_void,
) {
    // SAFETY: promised by the caller.
    let (older, differences) =
        unsafe { (older.get(), slice::from_raw_parts(differences, count)) };
    // SAFETY: as above.
    let differences = differences.iter().map(|one| unsafe { one.get() }.unwrap_or_default());
    let newest = newest(older, differences);
    let value = newest.as_deref().unwrap_or(LOST);
    // SAFETY: the string copies the bytes.
    unsafe { nagi_string_assign(out, value.as_ptr().cast(), value.len()) }
}

/// None if a difference is not one of the value before it.
fn newest<'d>(
    older: Option<&[u8]>,
    mut differences: impl Iterator<Item = &'d [u8]>,
) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    if !difference::apply(older?, differences.next()?, &mut value) {
        return None;
    }
    let mut next = Vec::new();
    for by in differences {
        next.clear();
        if !difference::apply(&value, by, &mut next) {
            return None;
        }
        std::mem::swap(&mut value, &mut next);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_what_it_was_made_of_is_lost() {
        let values = [vec![1; 200], vec![2; 200], [vec![2; 200], vec![3; 9]].concat()];
        let mut values: Vec<Vec<u8>> = values.into_iter().collect();
        values[1] = values[0].clone();
        values[1][7] = 9;
        values[2] = [values[1].as_slice(), &[3; 9]].concat();
        let made: Vec<Vec<u8>> = values
            .windows(2)
            .map(|pair| {
                let mut made = Vec::new();
                assert!(difference::append(&pair[0], &pair[1], &mut made));
                made
            })
            .collect();
        let all = || made.iter().map(Vec::as_slice);
        assert_eq!(newest(Some(&values[0]), all()), Some(values[2].clone()));
        assert_eq!(newest(Some(&values[1]), all().skip(1)), Some(values[2].clone()));
        assert_eq!(newest(Some(&values[0]), all().skip(1)), None);
        assert_eq!(newest(None, all()), None);
    }
}
