//! The handler of SIGBUS and SIGSEGV. It uses only operations that are safe in a signal handler: atomics, `write`,
//! `pause`.
#![expect(unsafe_code)]

use std::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    os::fd::RawFd,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
    },
};

/// Limit of files that are mapped at once; a database has two.
pub(super) const MAPS_MAX: usize = 64;
/// Bytes of a message from the handler: the map's number and the offset.
pub(super) const NOTE_BYTES: usize = 16;

/// Start and end of a map; a start of zero means that the entry is free.
struct Map {
    start: AtomicUsize,
    end: AtomicUsize,
}

static MAPS: [Map; MAPS_MAX] =
    [const { Map { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MAPS_MAX];
static SENDER: AtomicI32 = AtomicI32::new(-1);
static BEFORE: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];
const SIGNALS: [c_int; 2] = [libc::SIGBUS, libc::SIGSEGV];

/// Takes an entry for a map; none if all are taken. Only one thread calls this at a time.
pub(super) fn watch(start: usize, end: usize) -> Option<usize> {
    let place = MAPS.iter().position(|map| map.start.load(SeqCst) == 0)?;
    MAPS[place].end.store(end, SeqCst);
    MAPS[place].start.store(start, SeqCst);
    Some(place)
}

pub(super) fn forget(place: usize) {
    MAPS[place].end.store(0, SeqCst);
    MAPS[place].start.store(0, SeqCst);
}

pub(super) fn is_watched(start: usize) -> bool {
    MAPS.iter().any(|map| map.start.load(SeqCst) == start)
}

pub(super) fn parse(note: &[u8; NOTE_BYTES]) -> (usize, u64) {
    let (place, offset) = note.split_at(8);
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    (number(place) as usize, number(offset))
}

/// Installs the handler: from then on a fault at an address in a watched map is reported to `sender`.
pub(super) fn take_signals(sender: RawFd) -> bool {
    SENDER.store(sender, SeqCst);
    SIGNALS.iter().zip(&BEFORE).all(|(signal, before)| {
        let mut old = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a structure of integers may be zero; the calls fill and read structures that live through them.
        // The handler does only what is safe in one. Threads of Rust have a stack for signals.
        unsafe {
            if libc::sigaction(*signal, ptr::null(), old.as_mut_ptr()) != 0 {
                return false;
            }
            let _ = before.set(old.assume_init());
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_fault as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(*signal, &raw const new, ptr::null_mut()) == 0
        }
    })
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system passes a valid structure to a handler with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() } as usize;
    for (place, map) in MAPS.iter().enumerate() {
        let (start, end) = (map.start.load(SeqCst), map.end.load(SeqCst));
        if start == 0 || at < start || at >= end {
            continue;
        }
        let mut note = [0; NOTE_BYTES];
        note[..8].copy_from_slice(&(place as u64).to_ne_bytes());
        note[8..].copy_from_slice(&((at - start) as u64).to_ne_bytes());
        // SAFETY: the bytes live through the call; `pause` returns only when another handler has run.
        unsafe {
            libc::write(SENDER.load(SeqCst), note.as_ptr().cast(), NOTE_BYTES);
            loop {
                libc::pause();
            }
        }
    }
    // The fault is not in a watched map: the previous handler is restored, and handles it when the instruction is
    // retried.
    let before = SIGNALS.iter().position(|one| *one == signal).and_then(|at| BEFORE[at].get());
    if let Some(before) = before {
        // SAFETY: the structure was filled by the system.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}
