//! Calls between the ring buffer and ring_buffer.cc.
#![expect(unsafe_code)]

use std::{
    ffi::{c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    slice,
    sync::Arc,
};

use nagi_encryption::Keys;
use nagi_rocksdb_sys as ffi;

use super::thread::{Inner, RingBuffer};
use crate::encrypted;

unsafe extern "C" {
    fn nagi_ring_env_create(
        options: *mut c_void,
        ring_buffer: *const c_void,
        dir: *const c_char,
        length: usize,
        keys: *const c_void,
    ) -> *mut c_void;
    fn nagi_ring_env_destroy(env: *mut c_void);
}

/// RocksDB's environment with the ring buffer. Must be dropped after the database is closed.
pub(crate) struct Environment {
    raw: *mut c_void,
    _ring_buffer: Arc<RingBuffer>,
}

// SAFETY: RocksDB's environments are used by all its threads; ours is only created and destroyed.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Environment {
    /// Makes the database of the options, which will be in `dir`, write its log to the ring buffer; encrypted, if there
    /// are keys.
    ///
    /// SAFETY: `options` is a live options object.
    pub(crate) unsafe fn install(
        options: *mut ffi::rocksdb_options_t,
        ring_buffer: &Arc<RingBuffer>,
        dir: &Path,
        keys: Option<&Arc<Keys>>,
    ) -> Environment {
        let name = dir.as_os_str().as_bytes();
        let inner = Arc::as_ptr(&ring_buffer.inner);
        let keys = encrypted::given(keys);
        // SAFETY: the ring_buffer outlives the environment, which holds a reference; the name is copied; the reference
        // to the keys is taken over.
        let raw = unsafe {
            let (dir, length) = (name.as_ptr().cast(), name.len());
            nagi_ring_env_create(options.cast(), inner.cast(), dir, length, keys)
        };
        Environment { raw, _ring_buffer: Arc::clone(ring_buffer) }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: created in `install`; the database that used it is closed.
        unsafe { nagi_ring_env_destroy(self.raw) }
    }
}

/// SAFETY: the adapter passes the pointer that `install` gave it, as long as the environment lives.
unsafe fn inner<'a>(ring_buffer: *const c_void) -> &'a Inner {
    // SAFETY: as above.
    unsafe { &*ring_buffer.cast::<Inner>() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_ring_create(ring_buffer: *const c_void, number: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(ring_buffer) }.create(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_ring_reuse(ring_buffer: *const c_void, number: u64, old: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(ring_buffer) }.reuse(number, old)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_ring_append(
    ring_buffer: *const c_void,
    number: u64,
    data: *const c_char,
    length: usize,
) -> c_int {
    if length == 0 {
        return 0;
    }
    // SAFETY: see `inner`; RocksDB's slice lives through the call.
    unsafe { inner(ring_buffer).append(number, slice::from_raw_parts(data.cast(), length)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_ring_sync(ring_buffer: *const c_void, number: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(ring_buffer) }.sync(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_ring_close(ring_buffer: *const c_void, number: u64) -> c_int {
    // SAFETY: see `inner`.
    unsafe { inner(ring_buffer) }.close(number)
}

/// The table of open files is full: makes a descriptor available.
#[unsafe(no_mangle)]
extern "C" fn nagi_descriptors_give() {
    nagi_kv_disk::descriptors::give();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_ring_drain(ring_buffer: *const c_void) {
    // SAFETY: see `inner`.
    unsafe { inner(ring_buffer) }.drain();
}
