// An entry that an iterator has reached, as Rust sees it.
#pragma once

#include <rocksdb/slice.h>

#include <cstddef>

extern "C" {

struct nagi_entry {
  const char* key;
  size_t key_length;
  const char* value;
  size_t value_length;
};

}  // extern "C"

namespace nagi {

constexpr size_t kLineBytes = 64;
// The header of an entry, its key and the first fields of a document.
constexpr size_t kLinesAhead = 4;

// The next entry of a block begins where the value of this one ends. The processor does not foresee that, because
// values differ in length, so a scan would wait for memory at every entry. A fetch of addresses behind the block has no
// effect.
inline void FetchNext(const rocksdb::Slice& value) {
  const char* next = value.data() + value.size();
  for (size_t line = 0; line < kLinesAhead; line++) {
    __builtin_prefetch(next + line * kLineBytes);
  }
}

}  // namespace nagi
