//! Calls about the calling thread's place and priority.
#![expect(unsafe_code)]

/// Binds the calling thread to a processor.
pub(super) fn pin(processor: usize) -> bool {
    // SAFETY: a set of our own, of the size that is told; zero is the calling thread.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// Lets the calling thread run before all others whenever it has something to do.
pub(super) fn real_time() -> bool {
    // SAFETY: a structure of our own; zero is the calling thread.
    unsafe {
        let mut wanted = std::mem::zeroed::<libc::sched_param>();
        wanted.sched_priority = 50;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) == 0
    }
}
