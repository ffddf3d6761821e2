//! `fork`, for which neither the standard library nor a dependency of this crate has a safe function.
#![expect(unsafe_code)]

mod system {
    unsafe extern "C" {
        pub(super) fn fork() -> i32;
        pub(super) fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        pub(super) fn _exit(code: i32) -> !;
    }
}

/// Runs a closure in a forked process and returns the status that `waitpid` tells: 0 if the closure has returned.
pub(crate) fn in_child(run: impl FnOnce()) -> i32 {
    // SAFETY: the calling process has no threads that allocate or hold locks at this moment, except those of the
    // database, which the child does not use.
    match unsafe { system::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            // SAFETY: ends the process without the exit handlers of RocksDB, which wait for threads.
            unsafe { system::_exit(i32::from(done.is_err())) }
        }
        process => {
            let mut status = -1;
            // SAFETY: `status` lives as long as the call.
            unsafe { system::waitpid(process, &raw mut status, 0) };
            status
        }
    }
}
