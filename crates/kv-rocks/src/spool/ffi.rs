//! Calls between the ring buffer and spool.cc.
#![expect(unsafe_code)]

use std::{
    ffi::{c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    slice,
    sync::Arc,
};

use nagi_rocksdb_sys as ffi;

use super::thread::{Inner, Spool};

unsafe extern "C" {
    fn nagi_spool_env_create(
        options: *mut c_void,
        spool: *const c_void,
        dir: *const c_char,
        length: usize,
    ) -> *mut c_void;
    fn nagi_spool_env_destroy(env: *mut c_void);
}

/// RocksDB's environment with the ring buffer. Must be dropped after the database is closed.
pub(crate) struct Environment {
    raw: *mut c_void,
    _spool: Arc<Spool>,
}

// SAFETY: RocksDB's environments are used by all its threads; ours is only created and destroyed.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Environment {
    /// Makes the database of the options, which will be in `dir`, write its log to the ring buffer.
    ///
    /// SAFETY: `options` is a live options object.
    pub(crate) unsafe fn install(
        options: *mut ffi::rocksdb_options_t,
        spool: &Arc<Spool>,
        dir: &Path,
    ) -> Environment {
        let name = dir.as_os_str().as_bytes();
        let inner = Arc::as_ptr(&spool.inner);
        // SAFETY: the spool outlives the environment, which holds a reference; the name is copied.
        let raw = unsafe {
            nagi_spool_env_create(options.cast(), inner.cast(), name.as_ptr().cast(), name.len())
        };
        Environment { raw, _spool: Arc::clone(spool) }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: created in `install`; the database that used it is closed.
        unsafe { nagi_spool_env_destroy(self.raw) }
    }
}

/// SAFETY: the adapter passes the pointer that `install` gave it, as long as the environment lives.
unsafe fn inner<'a>(spool: *const c_void) -> &'a Inner {
    // SAFETY: as above.
    unsafe { &*spool.cast::<Inner>() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_spool_create(spool: *const c_void, number: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(spool) }.create(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_spool_reuse(spool: *const c_void, number: u64, old: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(spool) }.reuse(number, old)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_spool_append(
    spool: *const c_void,
    number: u64,
    data: *const c_char,
    length: usize,
) -> c_int {
    if length == 0 {
        return 0;
    }
    // SAFETY: see `inner`; RocksDB's slice lives through the call.
    unsafe { inner(spool).append(number, slice::from_raw_parts(data.cast(), length)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_spool_sync(spool: *const c_void, number: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(spool) }.sync(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_spool_close(spool: *const c_void, number: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(spool) }.close(number)
}

/// The table of open files is full: makes a descriptor available.
#[unsafe(no_mangle)]
extern "C" fn nagi_descriptors_give() {
    nagi_kv_disk::descriptors::give();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_spool_drain(spool: *const c_void) {
    // SAFETY: see `inner`.
    unsafe { inner(spool) }.drain();
}
