// Evicts from RocksDB's cache until it keeps to its capacity.
//
// A cache that was made smaller only evicts when something is inserted, and then a little more than
// what came in. So entries without content are inserted and taken out again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "rocksdb/advanced_cache.h"

#include "handles.h"

namespace {
// Large enough to be quick, far smaller than a shard.
constexpr size_t kStep = 64 << 10;
// More rounds than this without an end: what is left is in use.
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
    // Keys of this cache have sixteen bytes; these are spread over all shards.
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
