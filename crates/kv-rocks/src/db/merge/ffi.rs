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
    let (older, differences) = unsafe { (older.get(), slice::from_raw_parts(differences, count)) };
    // SAFETY: as above.
    let differences = differences.iter().map(|one| unsafe { one.get() }.unwrap_or_default());
    let newest = older.and_then(|older| difference::apply(older, differences));
    let value = newest.as_deref().unwrap_or(LOST);
    // SAFETY: the string copies the bytes.
    unsafe { nagi_string_assign(out, value.as_ptr().cast(), value.len()) }
}
