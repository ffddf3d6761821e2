//! Sets the time slice of a thread by `sched_setattr`, for which the C library has no function.
#![expect(unsafe_code, reason = "a system call without a safe wrapper")]

use std::io;
use std::time::Duration;

/// Gives the current thread a time slice of `nanos` nanoseconds, or the kernel's default for zero. Scheduling policy
/// and priority do not change. Costs about a microsecond.
///
/// # Errors
/// Those of the system call. Kernels before 6.12 accept the call but ignore the slice.
pub(super) fn set_slice(nanos: u64) -> io::Result<()> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all-zero bytes are a valid value of this structure of integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes into the structure; zero is the calling thread.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    let policy = i32::try_from(attributes.sched_policy).unwrap_or(-1);
    if !matches!(policy, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    attributes.size = size as u32;
    attributes.sched_runtime = nanos;
    // SAFETY: the kernel reads `size` bytes of the structure; zero is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The processor time that the current thread has used. Costs a system call.
pub(super) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes into the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The current thread's slice in nanoseconds; zero if the kernel does not report it.
#[cfg(test)]
pub(super) fn slice() -> u64 {
    // SAFETY: as above.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    attributes.sched_runtime
}
