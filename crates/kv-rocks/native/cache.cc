// The block cache with a compressed tier.
//
//   lookup --> uncompressed blocks (HyperClock) --miss--> compressed blocks (LRU) --miss--> disk
//   eviction from the first --> compressed into the second, if the block was evicted before or is found
//   again; at the first eviction only its key is kept, so blocks that are read once cost nothing
//
// Both tiers together stay within one capacity. Memtables, which are charged to the cache, reduce both.
//
// Above both stands a wrapper that samples reads for the estimate of what another size would do: blocks whose key has a
// hash below a threshold. It costs the others a hash and a comparison.

#include <rocksdb/advanced_cache.h>
#include <rocksdb/cache.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "handles.h"

// src/db/cache/ffi.rs: calls of `nagi_kv::reuse::Reuse`, for sampled hashes.
extern "C" void nagi_reuse_read(const void* reuse, uint64_t hash, size_t bytes);
extern "C" void nagi_reuse_cached(const void* reuse, uint64_t hash, size_t bytes);
extern "C" void nagi_reuse_removed(const void* reuse, uint64_t hash);

namespace {

using namespace rocksdb;

class SampledCache : public CacheWrapper {
 public:
  SampledCache(std::shared_ptr<Cache> target, const void* reuse, const std::atomic<uint64_t>* threshold)
      : CacheWrapper(std::move(target)), reuse_(reuse), threshold_(threshold) {}

  const char* Name() const override { return "SampledCache"; }

  Status Insert(const Slice& key, ObjectPtr value, const CacheItemHelper* helper, size_t charge, Handle** handle,
                Priority priority, const Slice& compressed, CompressionType type) override {
    const Status status = target_->Insert(key, value, helper, charge, handle, priority, compressed, type);
    // Entries without a destructor stand for memtables.
    if (helper->del_cb != nullptr && status.ok()) {
      const uint64_t hash = HashOf(key);
      if (IsSampled(hash)) nagi_reuse_cached(reuse_, hash, charge);
    }
    return status;
  }

  Handle* Lookup(const Slice& key, const CacheItemHelper* helper, CreateContext* context, Priority priority,
                 Statistics* stats) override {
    Handle* found = target_->Lookup(key, helper, context, priority, stats);
    const uint64_t hash = HashOf(key);
    if (!IsSampled(hash)) return found;
    if (helper == nullptr && stats == nullptr) {
      // RocksDB looks for a block of a file that it has removed, to erase it.
      nagi_reuse_removed(reuse_, hash);
    } else {
      nagi_reuse_read(reuse_, hash, found == nullptr ? 0 : target_->GetCharge(found));
    }
    return found;
  }

  void StartAsyncLookup(AsyncLookupHandle& lookup) override {
    target_->StartAsyncLookup(lookup);
    const uint64_t hash = HashOf(lookup.key);
    if (IsSampled(hash)) {
      Handle* found = lookup.IsPending() ? nullptr : lookup.Result();
      nagi_reuse_read(reuse_, hash, found == nullptr ? 0 : target_->GetCharge(found));
    }
  }

  const std::shared_ptr<Cache>& Tiers() const { return target_; }

  void Erase(const Slice& key) override {
    target_->Erase(key);
    const uint64_t hash = HashOf(key);
    if (IsSampled(hash)) nagi_reuse_removed(reuse_, hash);
  }

 private:
  // The words of a block's key are a number of its file and its offset, which are not evenly distributed.
  static uint64_t HashOf(const Slice& key) {
    uint64_t words[2] = {0, 0};
    std::memcpy(words, key.data(), key.size() < sizeof words ? key.size() : sizeof words);
    uint64_t x = words[0] ^ (words[1] * 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  bool IsSampled(uint64_t hash) const { return hash < threshold_->load(std::memory_order_relaxed); }

  const void* reuse_;
  const std::atomic<uint64_t>* threshold_;
};

std::shared_ptr<Cache> MakeCache(size_t capacity, int compression, double share) {
  HyperClockCacheOptions blocks(capacity, /*estimated_entry_charge=*/0);
  if (share <= 0) return blocks.MakeSharedCache();
  TieredCacheOptions tiers;
  tiers.cache_opts = &blocks;
  tiers.cache_type = PrimaryCacheType::kCacheTypeHCC;
  tiers.adm_policy = TieredAdmissionPolicy::kAdmPolicyPlaceholder;
  tiers.comp_cache_opts.compression_type = static_cast<CompressionType>(compression);
  tiers.total_capacity = capacity;
  tiers.compressed_secondary_ratio = share;
  return NewTieredCache(tiers);
}

}  // namespace

extern "C" {

// `compression`: RocksDB's number of the compressor; `share`: the part of the capacity for compressed blocks, 0 for
// none. `reuse` and `threshold` outlive the cache. Freed by rocksdb_cache_destroy.
rocksdb_cache_t* nagi_cache_create(size_t capacity, int compression, double share, const void* reuse,
                                   const uint64_t* threshold) noexcept {
  static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
  const auto* shared = reinterpret_cast<const std::atomic<uint64_t>*>(threshold);
  return new rocksdb_cache_t{std::make_shared<SampledCache>(MakeCache(capacity, compression, share), reuse, shared)};
}

// Changes the share of compressed blocks in a cache that was created with one.
void nagi_cache_set_share(rocksdb_cache_t* cache, double share) noexcept {
  const auto& sampled = static_cast<SampledCache&>(*cache->rep);
  rocksdb::UpdateTieredCache(sampled.Tiers(), -1, share).PermitUncheckedError();
}
}
