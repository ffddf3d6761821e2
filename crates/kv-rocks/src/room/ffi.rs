//! Two questions to the operating system.
#![expect(unsafe_code)]

use std::{
    ffi::CString,
    fs,
    mem::MaybeUninit,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::Path,
};

/// Free (for us) and total bytes of the file system of `dir`.
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

/// Tries `O_DIRECT` on a file of its own (tmpfs and some network file systems refuse it).
pub(crate) fn takes_direct_io(dir: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        let file = dir.join("direct_io.probe");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        let taken = options.open(&file).is_ok();
        let _ = fs::remove_file(&file);
        taken
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (dir, fs::OpenOptions::new().custom_flags(0));
        false
    }
}
