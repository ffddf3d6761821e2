//! The size of the block cache, which may change while the cache is in use, and the sample of its reads.

mod ffi;

use nagi_kv::reuse::Reuse;

use super::ffi::Db;
use super::ticker::Ticker;

pub(super) use ffi::resize;

impl Db {
    /// Reads of blocks, whether or not the cache had them.
    pub(crate) fn block_reads(&self) -> u64 {
        self.ticker(Ticker::CacheHit) + self.ticker(Ticker::CacheMiss)
    }

    /// The sample of the cache's reads.
    pub(crate) fn reuse(&self) -> &Reuse {
        &self.setup.reuse
    }
}
