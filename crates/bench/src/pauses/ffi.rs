//! System calls that set the processor and the priority of the calling thread.
#![expect(unsafe_code)]

/// Binds the calling thread to a processor.
pub(super) fn pin(processor: usize) -> bool {
    // SAFETY: the set is a local variable, and its size is passed; zero denotes the calling thread.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// Gives the calling thread real-time priority: it runs before all others whenever it is runnable.
pub(super) fn real_time() -> bool {
    // SAFETY: the structure is a local variable; zero denotes the calling thread.
    unsafe {
        let mut wanted = std::mem::zeroed::<libc::sched_param>();
        wanted.sched_priority = 50;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) == 0
    }
}
