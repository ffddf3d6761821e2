// The block cache with a compressed tier behind it.
//
//   lookup --> blocks as they are used (HyperClock) --miss--> compressed blocks (LRU) --miss--> disk
//   eviction from the first --> compressed into the second, if the block was evicted before or is
//   found again: the first time only its name is kept, so that what is read once costs nothing
//
// Both together keep to one capacity; memtables, which are charged to the cache, take from both.

#include <rocksdb/cache.h>

#include <memory>

#include "handles.h"

extern "C" {

// `compression`: RocksDB's number; `share`: of the capacity that is for compressed blocks, 0 for none.
// Freed by rocksdb_cache_destroy.
rocksdb_cache_t* nagi_cache_create(size_t capacity, int compression, double share) noexcept {
  using namespace rocksdb;
  HyperClockCacheOptions blocks(capacity, /*estimated_entry_charge=*/0);
  if (share <= 0) {
    return new rocksdb_cache_t{blocks.MakeSharedCache()};
  }
  TieredCacheOptions tiers;
  tiers.cache_opts = &blocks;
  tiers.cache_type = PrimaryCacheType::kCacheTypeHCC;
  tiers.adm_policy = TieredAdmissionPolicy::kAdmPolicyPlaceholder;
  tiers.comp_cache_opts.compression_type = static_cast<CompressionType>(compression);
  tiers.total_capacity = capacity;
  tiers.compressed_secondary_ratio = share;
  return new rocksdb_cache_t{NewTieredCache(tiers)};
}

// Changes the share of compressed blocks, of a cache that was made with one.
void nagi_cache_set_share(rocksdb_cache_t* cache, double share) noexcept {
  rocksdb::UpdateTieredCache(cache->rep, -1, share).PermitUncheckedError();
}
}
