//! Reads from the file list (MANIFEST) which logs a recovery needs, before any log is read.
#![expect(unsafe_code)]

use std::{ffi::CStr, path::Path, ptr};

use nagi_kv::Result;
use nagi_rocksdb_sys as ffi;

use super::super::{
    ffi::{c_path, checked},
    setup::{Setup, System, names, pointers},
};
use crate::options::Options;

const FIRST_NEEDED: &CStr = c"rocksdb.min-log-number-to-keep";

/// The number of the first log that a recovery would read. Opens the folder for reading, with the folder `no_logs`,
/// which has no logs, as its log folder; so nothing is recovered and nothing is changed.
pub(crate) fn first_needed_log(
    files: &Path,
    no_logs: &Path,
    options: &Options,
    system: &System,
) -> Result<u64> {
    let setup = Setup::new(files, options, system);
    let name = c_path(files)?;
    let present = setup.present(&name)?;
    let (names, families) = (names(&present), setup.options(&present));
    let mut handles = vec![ptr::null_mut(); names.len()];
    let log_folder = c_path(no_logs)?;
    let mut number = 0;
    // SAFETY: all arrays have as many elements as there are names and outlive the call; names are
    // copied; what is opened is closed here.
    unsafe {
        ffi::rocksdb_options_set_wal_dir(setup.database, log_folder.as_ptr());
        let raw = checked(|error| {
            ffi::rocksdb_open_for_read_only_column_families(
                setup.database,
                name.as_ptr(),
                names.len() as i32,
                pointers(&names).as_ptr(),
                families.as_ptr(),
                handles.as_mut_ptr(),
                0,
                error,
            )
        })?;
        ffi::rocksdb_property_int(raw, FIRST_NEEDED.as_ptr(), &raw mut number);
        for handle in handles {
            ffi::rocksdb_column_family_handle_destroy(handle);
        }
        ffi::rocksdb_close(raw);
    }
    Ok(number)
}
