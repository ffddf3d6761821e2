//! Reads the keys of one table file, whatever the other files of the database say about them.
#![expect(unsafe_code)]

use std::{path::Path, ptr, slice, sync::Arc};

use super::super::{
    ffi::{Db, bytes, c_path},
    native::{TableKeysHandle, nagi_table_keys_close, nagi_table_keys_move, nagi_table_keys_open},
};

use crate::encrypted::Environment;

/// An open table file. The key of each of its entries is yielded: values, differences and deletions, several versions
/// of a key one after the other.
pub(crate) struct TableKeys {
    raw: *mut TableKeysHandle,
    /// Has the environment by which the file is read.
    _db: Arc<Db>,
}

/// Where a move ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Key(Vec<u8>),
    End,
    /// A block cannot be read.
    Unreadable,
}

impl TableKeys {
    /// None if the table cannot be opened. The file is one of the folder of `db`.
    pub(crate) fn open(db: &Arc<Db>, file: &Path) -> Option<TableKeys> {
        let name = c_path(file).ok()?;
        let environment = Environment::pointer(db.setup.encrypted.as_ref());
        // SAFETY: the name ends with a zero byte and is only read during the call; the environment lives with `db`.
        let raw = unsafe { nagi_table_keys_open(name.as_ptr(), environment) };
        (!raw.is_null()).then(|| TableKeys { raw, _db: Arc::clone(db) })
    }

    /// Moves to the first key that is not before `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Step {
        self.step(Some(key))
    }

    /// Moves to the next entry; only after a move that found a key.
    pub(crate) fn next(&mut self) -> Step {
        self.step(None)
    }

    fn step(&mut self, to: Option<&[u8]>) -> Step {
        let (mut key, mut length) = (ptr::null(), 0);
        let (to, to_length) = to.map_or((ptr::null(), 0), |to| (bytes(to), to.len()));
        // SAFETY: the file is open; `to` lives through the call; the key is copied before the next move.
        unsafe {
            match nagi_table_keys_move(self.raw, to, to_length, &raw mut key, &raw mut length) {
                1 => Step::Key(slice::from_raw_parts(key.cast::<u8>(), length).to_vec()),
                0 => Step::End,
                _ => Step::Unreadable,
            }
        }
    }
}

impl Drop for TableKeys {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed once.
        unsafe { nagi_table_keys_close(self.raw) }
    }
}
