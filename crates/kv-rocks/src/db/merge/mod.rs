//! Records that are stored as an older version and the differences since. RocksDB puts them together for every reader,
//! and for flushes and compactions that have the older version, through `native/merge.cc`. All of the code here is
//! called from C++, so it is in `ffi.rs`.

mod ffi;
