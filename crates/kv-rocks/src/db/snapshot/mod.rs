//! Snapshots of the database, for several reads.

mod ffi;

pub(crate) use ffi::SnapshotHandle;
