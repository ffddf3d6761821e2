// Makes memtables remember, for each prefix of keys, where the last key was inserted. A key that follows the last one of
// its collection or index is then inserted in constant time; otherwise the whole skip list is searched.

#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>

#include <cstddef>

#include "handles.h"

extern "C" void nagi_options_insert_near_last(rocksdb_options_t* options, size_t prefix_bytes) noexcept {
  options->rep.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(prefix_bytes));
}
