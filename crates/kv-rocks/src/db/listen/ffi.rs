//! Callbacks between the engine and damage.cc, and the options of a space whose compactions are suspended.
#![expect(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    slice,
    time::Instant,
};

use nagi_kv::{Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::ffi::{Db, checked};
use crate::quarantine::Damaged;

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
    unsafe { &*damaged.cast::<Damaged>() }.flushes.begun(job, Instant::now());
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_flush_finished(damaged: *const c_void, job: c_int) {
    // SAFETY: the pointer is that of `listen`.
    unsafe { &*damaged.cast::<Damaged>() }.flushes.finished(job, Instant::now());
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
