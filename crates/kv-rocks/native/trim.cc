// Evicts from RocksDB's cache until it is within its capacity.
//
// After its capacity was reduced, a cache evicts only when an entry is inserted, and then slightly more than the
// entry's size. So empty entries are inserted and removed again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "rocksdb/advanced_cache.h"

#include "handles.h"

namespace {
// Large enough to be quick, and far smaller than a shard.
constexpr size_t kStep = 64 << 10;
// After this many rounds without progress, the remaining entries are in use.
constexpr size_t kIdleRounds = 256;

uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
}  // namespace

extern "C" size_t nagi_cache_trim(rocksdb_cache_t* handle, size_t capacity) {
  rocksdb::Cache& cache = *handle->rep;
  size_t least = cache.GetUsage();
  size_t idle = 0;
  for (uint64_t round = 1; least > capacity && idle < kIdleRounds; round++) {
    // Keys of this cache have sixteen bytes; these are distributed over all shards.
    uint64_t words[2] = {Mixed(round), Mixed(~round)};
    char bytes[sizeof words];
    std::memcpy(bytes, words, sizeof words);
    rocksdb::Slice key(bytes, sizeof bytes);
    cache.Insert(key, nullptr, &rocksdb::kNoopCacheItemHelper, kStep).PermitUncheckedError();
    cache.Erase(key);
    const size_t now = cache.GetUsage();
    idle = now < least ? 0 : idle + 1;
    least = now < least ? now : least;
  }
  return cache.GetUsage();
}
