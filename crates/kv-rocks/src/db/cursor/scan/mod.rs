//! Forward scans of a snapshot (`native/scan.cc`).

mod ffi;

pub(super) use ffi::Scan;
