//! Calls `native/census.cc`.
#![expect(unsafe_code)]

use std::{
    collections::HashMap,
    ffi::{c_char, c_int, c_void},
    ptr, slice,
};

use nagi_kv::{Error, Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::ffi::{Db, bytes};

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

type Visit = unsafe extern "C" fn(*mut c_void, *const c_char, usize, u64);

// SAFETY: as defined in `native/census.cc`, which this crate's build script compiles.
unsafe extern "C" {
    fn nagi_census_create(cache: *mut ffi::rocksdb_cache_t) -> *mut Handle;
    fn nagi_census_visit(
        census: *const Handle,
        db: *mut ffi::rocksdb_t,
        family: *mut ffi::rocksdb_column_family_handle_t,
        start: *const c_char,
        start_length: usize,
        end: *const c_char,
        end_length: usize,
        state: *mut c_void,
        visit: Visit,
    ) -> c_int;
    fn nagi_census_destroy(census: *mut Handle);
}

/// The bytes of the cache by file, as they were at one moment.
pub(in crate::db) struct Census {
    raw: *mut Handle,
}

// SAFETY: a census is not modified after it was taken.
unsafe impl Send for Census {}
// SAFETY: as above.
unsafe impl Sync for Census {}

impl Census {
    /// Visits all blocks of the database's cache.
    pub(super) fn take(db: &Db) -> Census {
        // SAFETY: the cache lives as long as the database; others may use it meanwhile.
        Census { raw: unsafe { nagi_census_create(db.cache()) } }
    }

    /// The cached bytes of each table with keys of the range, by its name.
    pub(super) fn tables(
        &self,
        db: &Db,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Result<HashMap<String, u64>> {
        let mut tables: HashMap<String, u64> = HashMap::new();
        // SAFETY: all pointers live through the call; `add` gets the pointer to `tables`, which nothing else uses.
        let read = unsafe {
            nagi_census_visit(
                self.raw,
                db.raw,
                db.family(space),
                bytes(start),
                start.len(),
                bytes(end),
                end.len(),
                ptr::from_mut(&mut tables).cast(),
                add,
            )
        };
        match read {
            0 => Err(Error::other("the properties of a table cannot be read")),
            _ => Ok(tables),
        }
    }
}

impl Drop for Census {
    fn drop(&mut self) {
        // SAFETY: it was created by the constructor and is not used any more.
        unsafe { nagi_census_destroy(self.raw) };
    }
}

unsafe extern "C" fn add(state: *mut c_void, name: *const c_char, name_length: usize, bytes: u64) {
    // SAFETY: `state` is the map of `tables`, and the name lives through the call.
    let (tables, name) = unsafe {
        let tables = &mut *state.cast::<HashMap<String, u64>>();
        (tables, slice::from_raw_parts(name.cast::<u8>(), name_length))
    };
    tables.insert(String::from_utf8_lossy(name).into_owned(), bytes);
}
