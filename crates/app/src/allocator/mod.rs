//! The process's allocator, as the watcher of memory uses it.

mod raw;

use nagi_host::Allocator;

/// What the watcher calls.
pub(crate) const ALLOCATOR: Allocator = Allocator { purge: raw::purge, figures: raw::figures };
