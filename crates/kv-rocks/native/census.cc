// Counts the bytes of RocksDB's cache by table file.
//
// The keys of a file's blocks begin with the same eight bytes, which follow from the file's identity. So one walk over
// the cache sums the blocks by these bytes, and a table's properties tell which of the sums is its own. Blocks in the
// compressed tier cannot be listed and are not counted.

#include <rocksdb/advanced_cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table_properties.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "cache/cache_key.h"
#include "handles.h"

struct nagi_census {
  std::unordered_map<uint64_t, uint64_t> bytes_by_prefix;
};

namespace {
uint64_t PrefixOf(const rocksdb::Slice& key) {
  uint64_t prefix = 0;
  std::memcpy(&prefix, key.data(), sizeof prefix);
  return prefix;
}
}  // namespace

extern "C" {

// Visits every entry of the cache: about ten milliseconds for a gigabyte of blocks. Shards are locked one after another.
nagi_census* nagi_census_create(rocksdb_cache_t* cache) noexcept {
  auto census = std::make_unique<nagi_census>();
  auto add = [&census](const rocksdb::Slice& key, rocksdb::Cache::ObjectPtr, size_t charge,
                       const rocksdb::Cache::CacheItemHelper*) {
    if (key.size() == sizeof(rocksdb::CacheKey)) {
      census->bytes_by_prefix[PrefixOf(key)] += charge;
    }
  };
  cache->rep->ApplyToAllEntries(add, {});
  return census.release();
}

// Calls `visit` with the name and the cached bytes of each table that has keys of the range. Returns 0 if the properties
// of a table cannot be read.
int nagi_census_visit(const nagi_census* census, rocksdb_t* db, rocksdb_column_family_handle_t* family,
                      const char* start, size_t start_length, const char* end, size_t end_length, void* state,
                      void (*visit)(void* state, const char* name, size_t name_length, uint64_t bytes)) noexcept {
  const rocksdb::Range range(rocksdb::Slice(start, start_length), rocksdb::Slice(end, end_length));
  rocksdb::TablePropertiesCollection tables;
  if (!db->rep->GetPropertiesOfTablesInRange(family->rep, &range, 1, &tables).ok()) {
    return 0;
  }
  for (const auto& [path, properties] : tables) {
    const rocksdb::OffsetableCacheKey base(properties->db_id, properties->db_session_id, properties->orig_file_number);
    const auto found = census->bytes_by_prefix.find(PrefixOf(base.CommonPrefixSlice()));
    const size_t slash = path.find_last_of('/');
    const size_t from = slash == std::string::npos ? 0 : slash + 1;
    visit(state, path.data() + from, path.size() - from,
          found == census->bytes_by_prefix.end() ? 0 : found->second);
  }
  return 1;
}

void nagi_census_destroy(nagi_census* census) noexcept { delete census; }

}  // extern "C"
