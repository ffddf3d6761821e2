//! The shared mapping, and system calls that the standard library lacks.
#![expect(unsafe_code)]

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    ptr, slice,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Memory shared with every process that maps the same file.
pub(super) struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the memory belongs to the mapping until it is dropped; `Ring` determines which thread accesses which
// part, and when.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of the file, which must have that length.
    pub(super) fn new(file: &File, length: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address of the system's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), length })
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Copies `bytes` to `at`. No other thread or process may access that part meanwhile.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.length));
        // SAFETY: inside the mapping; the caller owns this part.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) }
    }

    /// The bytes at `at`. They must not be written while they are in use.
    pub(super) fn read(&self, at: usize, length: usize) -> &[u8] {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.length));
        // SAFETY: inside the mapping; the caller knows that this part is not written meanwhile.
        unsafe { slice::from_raw_parts(self.start.add(at), length) }
    }

    /// The number at `at`, which must be a multiple of eight.
    fn atomic(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.length);
        // SAFETY: inside the mapping, aligned (mappings begin at a page), only used atomically.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) }
    }

    pub(super) fn load(&self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::Acquire)
    }

    pub(super) fn store(&self, at: usize, value: u64) {
        self.atomic(at).store(value, Ordering::Release);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe {
            libc::munmap(self.start.cast(), self.length);
        }
    }
}

/// Reserves memory for the whole file, so that no write to the mapping can fail later.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<()> {
    // SAFETY: a call about an open file.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length as libc::off_t) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Allocates disk space at `from` without changing the file's size. If the file system cannot do that (ext3), it
/// returns an error and writes nothing: the file then grows as it is written.
pub(super) fn allocate(file: &File, from: u64, length: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a call about an open file.
        let code = unsafe {
            libc::fallocate(file.as_raw_fd(), keep, from as libc::off_t, length as libc::off_t)
        };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, from, length);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Starts the writeback of a range, so that the next sync has little to do. Best effort.
pub(super) fn start_writing_back(file: &File, from: u64, length: u64) {
    #[cfg(target_os = "linux")]
    // SAFETY: a call about an open file.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            from as libc::off64_t,
            length as libc::off64_t,
            libc::SYNC_FILE_RANGE_WRITE,
        );
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, from, length);
}

/// The user with whose rights this process creates files.
pub(super) fn effective_user() -> u32 {
    // SAFETY: a call without arguments that cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes a named pipe.
#[cfg(test)]
pub(super) fn make_pipe(path: &std::path::Path) {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// Locks the file for this process. Returns false if another process has it locked.
pub(super) fn lock(file: &File) -> bool {
    // SAFETY: a call about an open file.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// A killed process keeps its locks until it has left the kernel, a forked one those of its parent until it runs its
/// own program.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Locks the file for this process, waiting for one that is about to end. Returns false if it stays locked.
pub(super) fn lock_soon(file: &File) -> bool {
    let begin = Instant::now();
    while !lock(file) {
        if begin.elapsed() > LOCK_PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Returns true if the file is on a memory file system.
pub(super) fn is_memory(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut answer = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the structure is read only if the call succeeded.
        let kind = unsafe {
            (libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) == 0)
                .then(|| answer.assume_init().f_type)
        };
        kind == Some(libc::TMPFS_MAGIC)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}
