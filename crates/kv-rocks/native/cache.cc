// The block cache with a compressed tier.
//
//   lookup --> uncompressed blocks (HyperClock) --miss--> compressed blocks (LRU) --miss--> disk
//   eviction from the first --> compressed into the second, if the block was evicted before or is found
//   again; at the first eviction only its key is kept, so blocks that are read once cost nothing
//
// Both tiers together stay within one capacity. Memtables, which are charged to the cache, reduce both.

#include <rocksdb/cache.h>

#include <memory>

#include "handles.h"

extern "C" {

// `compression`: RocksDB's number of the compressor; `share`: the part of the capacity for compressed blocks, 0 for
// none. Freed by rocksdb_cache_destroy.
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

// Changes the share of compressed blocks in a cache that was created with one.
void nagi_cache_set_share(rocksdb_cache_t* cache, double share) noexcept {
  rocksdb::UpdateTieredCache(cache->rep, -1, share).PermitUncheckedError();
}
}
