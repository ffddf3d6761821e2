//! A cursor of LMDB in a read transaction.
#![expect(unsafe_code)]

use std::{ptr, sync::Arc};

use lmdb_master_sys as ffi;
use nagi_kv::Result;

use super::{
    Db,
    ffi::{ReadTxn, bytes, checked, value},
};

/// A position in a database. It holds a reference to its transaction.
pub(crate) struct RawCursor {
    cursor: *mut ffi::MDB_cursor,
    key: ffi::MDB_val,
    value: ffi::MDB_val,
    /// Dropped after the cursor was closed.
    _txn: Arc<ReadTxn>,
}

// SAFETY: a cursor of a read transaction belongs to no thread; its positions point into the map.
unsafe impl Send for RawCursor {}

impl RawCursor {
    pub(crate) fn open(txn: &Arc<ReadTxn>, db: Db) -> Result<RawCursor> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is alive, and stays so as long as the cursor.
        unsafe {
            checked(ffi::mdb_cursor_open(txn.raw(), txn.env().db(db), &raw mut cursor))?;
        }
        Ok(RawCursor { cursor, key: value(&[]), value: value(&[]), _txn: Arc::clone(txn) })
    }

    /// Moves to the first key that is `key` or greater; with an empty `key`, to the first of all.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if key.is_empty() {
            return self.go(ffi::MDB_FIRST);
        }
        self.key = value(key);
        self.go(ffi::MDB_SET_RANGE)
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        self.go(ffi::MDB_LAST)
    }

    pub(crate) fn next(&mut self) -> Result<bool> {
        self.go(ffi::MDB_NEXT)
    }

    pub(crate) fn prev(&mut self) -> Result<bool> {
        self.go(ffi::MDB_PREV)
    }

    /// The current key; empty if the cursor has no position.
    pub(crate) fn key(&self) -> &[u8] {
        // SAFETY: a read transaction's bytes live as long as it; `go` empties them without a position.
        unsafe { bytes(&self.key) }
    }

    pub(crate) fn value(&self) -> &[u8] {
        // SAFETY: as above.
        unsafe { bytes(&self.value) }
    }

    fn go(&mut self, op: ffi::MDB_cursor_op) -> Result<bool> {
        // SAFETY: the cursor is open; on success LMDB sets both values to memory of the map.
        let code =
            unsafe { ffi::mdb_cursor_get(self.cursor, &raw mut self.key, &raw mut self.value, op) };
        if code == ffi::MDB_SUCCESS {
            return Ok(true);
        }
        (self.key, self.value) = (value(&[]), value(&[]));
        match code {
            ffi::MDB_NOTFOUND => Ok(false),
            code => checked(code).map(|()| false),
        }
    }
}

impl Drop for RawCursor {
    fn drop(&mut self) {
        // SAFETY: the transaction is still alive.
        unsafe { ffi::mdb_cursor_close(self.cursor) };
    }
}
