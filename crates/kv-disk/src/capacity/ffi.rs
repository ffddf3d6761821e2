//! The size of a file system.
#![expect(unsafe_code)]

use std::{ffi::CString, mem::MaybeUninit, os::unix::ffi::OsStrExt, path::Path};

/// Bytes available to this process, and total bytes, of the file system of `dir`.
pub(super) fn space(dir: &Path) -> Option<(u64, u64)> {
    let name = CString::new(dir.as_os_str().as_bytes()).ok()?;
    let mut answer = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the name is zero-terminated; the structure is read only if the call succeeded.
    let answer = unsafe {
        if libc::statvfs(name.as_ptr(), answer.as_mut_ptr()) != 0 {
            return None;
        }
        answer.assume_init()
    };
    let block = answer.f_frsize as u64;
    Some((answer.f_bavail as u64 * block, answer.f_blocks as u64 * block))
}
