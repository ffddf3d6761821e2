//! Takes a secret out of the environment.
#![expect(unsafe_code)]

use std::ffi::{CStr, CString};

use zeroize::Zeroizing;

/// The text of an environment variable, which is then neither in the environment nor in `/proc/PID/environ`: that file
/// shows the memory in which the system placed the environment. The caller is the only thread.
pub(super) fn take_variable(name: &str) -> Option<Zeroizing<String>> {
    let bytes = take_bytes(name)?;
    str::from_utf8(&bytes).ok().map(|text| Zeroizing::new(text.to_owned()))
}

/// The same for a value that may be no text.
pub(super) fn take_bytes(name: &str) -> Option<Zeroizing<Vec<u8>>> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero; no other thread reads or changes the environment.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: it points to a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(found) };
    let len = text.count_bytes();
    let bytes = Zeroizing::new(text.to_bytes().to_vec());
    for at in 0..len {
        // SAFETY: the bytes of the string before its end, in memory of this process that may be written. POSIX
        // forbids it because of other readers, of which there are none. Volatile, so that it happens.
        unsafe { found.add(at).write_volatile(0) };
    }
    // SAFETY: as for `getenv`.
    unsafe { libc::unsetenv(name.as_ptr()) };
    Some(bytes)
}
