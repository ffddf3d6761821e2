//! Calls between `nagi_encryption` and encrypted.cc.
#![expect(unsafe_code)]

use std::{
    ffi::{c_char, c_void},
    fmt::Display,
    ptr, slice,
    sync::Arc,
};

use nagi_encryption::{FileCipher, HEADER_BYTES, Keys};
use nagi_rocksdb_sys as ffi;

// SAFETY: as defined in `native/read_back.cc`.
unsafe extern "C" {
    fn nagi_encrypted_env_create(keys: *const c_void) -> *mut c_void;
    fn nagi_encrypted_env_destroy(env: *mut c_void);
    fn nagi_options_encrypted(options: *mut ffi::rocksdb_options_t, env: *mut c_void);
}

/// A reference to keys for C++, which gives it back by `nagi_keys_free`; null without keys.
pub(crate) fn given(keys: Option<&Arc<Keys>>) -> *const c_void {
    keys.map_or(ptr::null(), |keys| Arc::into_raw(Arc::clone(keys)).cast())
}

/// RocksDB's environment whose files are encrypted. Must be dropped after everything that uses it.
pub(crate) struct Environment {
    raw: *mut c_void,
}

// SAFETY: RocksDB's environments are used by all its threads; ours is only created and destroyed.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Environment {
    pub(crate) fn new(keys: &Arc<Keys>) -> Environment {
        // SAFETY: the reference is taken over.
        Environment { raw: unsafe { nagi_encrypted_env_create(given(Some(keys))) } }
    }

    /// Makes the database of the options use it.
    ///
    /// SAFETY: `options` is a live options object; the database is closed before the environment is dropped.
    pub(crate) unsafe fn install(&self, options: *mut ffi::rocksdb_options_t) {
        // SAFETY: promised by the caller.
        unsafe { nagi_options_encrypted(options, self.raw) }
    }

    /// For calls that take an environment, or null for an unencrypted one.
    pub(crate) fn pointer(this: Option<&Environment>) -> *mut c_void {
        this.map_or(ptr::null_mut(), |this| this.raw)
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: created in `new`; what used it is closed.
        unsafe { nagi_encrypted_env_destroy(self.raw) }
    }
}

/// Gives a cipher to C++, or null and the error's text.
///
/// SAFETY: `text` has `length` writable bytes, of which there are some.
unsafe fn give<E: Display>(
    cipher: Result<FileCipher, E>,
    text: *mut c_char,
    length: usize,
) -> *const c_void {
    match cipher {
        Ok(cipher) => Box::into_raw(Box::new(cipher)).cast_const().cast(),
        Err(error) => {
            let said = error.to_string();
            let said = &said.as_bytes()[..said.len().min(length - 1)];
            // SAFETY: promised by the caller.
            let text = unsafe { slice::from_raw_parts_mut(text.cast::<u8>(), length) };
            text[..said.len()].copy_from_slice(said);
            text[said.len()] = 0;
            ptr::null()
        }
    }
}

/// Makes the cipher of a new file, and its header.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_cipher_new(
    keys: *const c_void,
    header: *mut c_char,
    text: *mut c_char,
    text_length: usize,
) -> *const c_void {
    // SAFETY: the pointer is that of `given`, whose reference C++ holds.
    let made = unsafe { &*keys.cast::<Keys>() }.new_file().map(|(bytes, cipher)| {
        // SAFETY: a header fits there.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), header.cast::<u8>(), HEADER_BYTES) };
        cipher
    });
    // SAFETY: the text's buffer lives through the call.
    unsafe { give(made, text, text_length) }
}

/// The cipher of a file, from its first bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_cipher_open(
    keys: *const c_void,
    header: *const c_char,
    length: usize,
    text: *mut c_char,
    text_length: usize,
) -> *const c_void {
    let header = if length == 0 { ptr::NonNull::dangling().as_ptr() } else { header.cast_mut() };
    // SAFETY: the pointer to keys is that of `given`; both buffers live through the call.
    unsafe {
        let header = slice::from_raw_parts(header.cast_const().cast::<u8>(), length);
        give((*keys.cast::<Keys>()).open_file(header), text, text_length)
    }
}

/// Encrypts or decrypts in place.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_cipher_apply(
    cipher: *const c_void,
    offset: u64,
    bytes: *mut c_char,
    length: usize,
) {
    if length == 0 {
        return;
    }
    // SAFETY: a cipher of `give` that is not freed yet; the bytes are the caller's.
    unsafe {
        let bytes = slice::from_raw_parts_mut(bytes.cast::<u8>(), length);
        (*cipher.cast::<FileCipher>()).apply(offset, bytes);
    }
}

/// Encrypts or decrypts from one buffer to another one, which do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_cipher_copy(
    cipher: *const c_void,
    offset: u64,
    from: *const c_char,
    to: *mut c_char,
    length: usize,
) {
    if length == 0 {
        return;
    }
    // SAFETY: a cipher of `give` that is not freed yet; the bytes are the caller's, and apart from each other.
    unsafe {
        let from = slice::from_raw_parts(from.cast::<u8>(), length);
        let to = slice::from_raw_parts_mut(to.cast::<u8>(), length);
        (*cipher.cast::<FileCipher>()).copy(offset, from, to);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_cipher_free(cipher: *const c_void) {
    // SAFETY: made by `give`, freed once.
    drop(unsafe { Box::from_raw(cipher.cast_mut().cast::<FileCipher>()) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_keys_free(keys: *const c_void) {
    // SAFETY: a reference of `given`, given back once.
    drop(unsafe { Arc::from_raw(keys.cast::<Keys>()) });
}
