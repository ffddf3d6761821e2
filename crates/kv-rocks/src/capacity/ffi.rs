//! Queries and settings of the operating system.
#![expect(unsafe_code)]

use std::{fs, os::unix::fs::OpenOptionsExt, path::Path};

/// Returns true if files in `dir` can be written without the page cache: tries `O_DIRECT` on a probe file (tmpfs
/// and some network file systems refuse it).
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

/// Raises the limit of open files to the permitted maximum (tables stay open, and connections need some, too).
/// Returns the limit.
#[expect(clippy::unnecessary_cast, reason = "the field's width differs between systems")]
pub(crate) fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours; a refused request leaves the limit as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 1024;
        }
        let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        if limit.rlim_cur < wanted.rlim_cur
            && libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0
        {
            limit = wanted;
        }
    }
    limit.rlim_cur as u64
}
