//! Snapshots: what was visible at a moment, for many reads.

mod ffi;

pub(crate) use ffi::SnapshotHandle;
