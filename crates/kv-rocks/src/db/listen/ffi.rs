//! Callbacks between the engine and damage.cc, and the options of a space whose compactions are suspended.
#![expect(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    slice,
    time::Instant,
};

use nagi_kv::{EngineEvent, Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::ffi::{Db, checked};
use crate::events::{compaction_reason, flush_reason};
use crate::quarantine::Damaged;
use crate::work_memory;

const FLUSH: c_int = 0;
const COMPACTION: c_int = 1;

unsafe extern "C" {
    fn nagi_damage_listen(options: *mut ffi::rocksdb_options_t, damaged: *const c_void);
}

/// Disables automatic compactions, and ensures that the files waiting for one do not delay writes.
const RESTING: [(&CStr, &CStr); 5] = [
    (c"disable_auto_compactions", c"true"),
    (c"hard_pending_compaction_bytes_limit", c"0"),
    (c"level0_slowdown_writes_trigger", c"1000000"),
    (c"level0_stop_writes_trigger", c"1000000"),
    (c"soft_pending_compaction_bytes_limit", c"0"),
];

/// Makes the database of the options report failed compactions and flushes to `damaged`.
///
/// SAFETY: `options` is a live options object; `damaged` outlives the database.
pub(in crate::db) unsafe fn listen(options: *mut ffi::rocksdb_options_t, damaged: &Damaged) {
    // SAFETY: promised by the caller.
    unsafe { nagi_damage_listen(options, (&raw const *damaged).cast()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_compaction_failed(
    damaged: *const c_void,
    space: *const c_char,
    space_length: usize,
    text: *const c_char,
    text_length: usize,
) {
    // SAFETY: the pointer is that of `listen`; the strings live through the call.
    let (damaged, space, text) = unsafe {
        (
            &*damaged.cast::<Damaged>(),
            slice::from_raw_parts(space.cast::<u8>(), space_length),
            slice::from_raw_parts(text.cast::<u8>(), text_length),
        )
    };
    if let Some(space) = Space::ALL.into_iter().find(|known| known.name().as_bytes() == space) {
        damaged.met(space, &String::from_utf8_lossy(text));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_flush_begun(damaged: *const c_void, job: c_int) {
    // SAFETY: the pointer is that of `listen`.
    let damaged = unsafe { &*damaged.cast::<Damaged>() };
    damaged.flushes.begun(job, Instant::now());
    work_memory::begin_flush(damaged.work_memory.as_ref());
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_compaction_begun(damaged: *const c_void) {
    // SAFETY: the pointer is that of `listen`.
    let damaged = unsafe { &*damaged.cast::<Damaged>() };
    work_memory::begin_compaction(damaged.work_memory.as_ref());
}

/// A flush or compaction, or a load of a table by another thread, adds a value to a table.
#[unsafe(no_mangle)]
extern "C" fn nagi_value_written(bytes: usize) {
    work_memory::writes(bytes);
}

/// As in `native/damage.cc`.
#[repr(C)]
struct Work {
    kind: c_int,
    job: c_int,
    reason: c_int,
    from_level: c_int,
    to_level: c_int,
    failed: c_int,
    space: *const c_char,
    space_length: usize,
    micros: u64,
    files_read: u64,
    files_written: u64,
    bytes_read: u64,
    bytes_written: u64,
    entries_read: u64,
    entries_written: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_work_finished(damaged: *const c_void, work: *const Work) {
    // SAFETY: the pointer is that of `listen`; the work and its strings live through the call.
    let (damaged, work, space) = unsafe {
        let work = &*work;
        let space = slice::from_raw_parts(work.space.cast::<u8>(), work.space_length);
        (&*damaged.cast::<Damaged>(), work, space)
    };
    let had_large = matches!(work.kind, FLUSH | COMPACTION) && work_memory::end();
    let flushed = (work.kind == FLUSH).then(|| damaged.flushes.finished(work.job, Instant::now()));
    let known = Space::ALL.into_iter().find(|known| known.name().as_bytes() == space);
    let Some(space) = known else { return };
    if had_large && work.kind == FLUSH {
        damaged.large_flushes.note(space, Instant::now());
    }
    let (kind, reason) = match work.kind {
        FLUSH => ("flush", flush_reason(work.reason)),
        COMPACTION => ("compaction", compaction_reason(work.reason)),
        _ => ("load", "sorted data"),
    };
    damaged.events.add(EngineEvent {
        number: 0,
        at_ms: 0,
        kind,
        space: space.name(),
        reason,
        micros: flushed.map_or(work.micros, |took| took.as_micros() as u64),
        from_level: u32::try_from(work.from_level).unwrap_or(0),
        to_level: u32::try_from(work.to_level).unwrap_or(0),
        files_read: work.files_read,
        files_written: work.files_written,
        bytes_read: work.bytes_read,
        bytes_written: work.bytes_written,
        entries_read: work.entries_read,
        entries_written: work.entries_written,
        failed: work.failed != 0,
    });
}

impl Db {
    /// Suspends automatic compactions of the space; only explicit ones run.
    pub(crate) fn rest(&self, space: Space) -> Result<()> {
        let names = RESTING.map(|(name, _)| name.as_ptr());
        let values = RESTING.map(|(_, value)| value.as_ptr());
        // SAFETY: as many names as values, all copied.
        checked(|error| unsafe {
            ffi::rocksdb_set_options_cf(
                self.raw,
                self.family(space),
                RESTING.len() as i32,
                names.as_ptr(),
                values.as_ptr(),
                error,
            );
        })
    }
}
