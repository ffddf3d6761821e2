// Moves an iterator and returns its entry, in one call.
//
// RocksDB's C interface has separate calls for the move, the validity, the key and the value, each with a virtual call
// behind it. A scan needs all four for every entry.

#include <rocksdb/iterator.h>

#include "handles.h"

namespace {

constexpr size_t kLineBytes = 64;
// The header of an entry, its key and the first fields of a document.
constexpr size_t kLinesAhead = 4;

// The next entry of a block begins where the value of this one ends. The processor does not foresee that, because
// values differ in length, so a scan would wait for memory at every entry. A fetch of addresses behind the block has no
// effect.
void FetchNext(const rocksdb::Slice& value) {
  const char* next = value.data() + value.size();
  for (size_t line = 0; line < kLinesAhead; line++) {
    __builtin_prefetch(next + line * kLineBytes);
  }
}

}  // namespace

extern "C" {

struct nagi_entry {
  const char* key;
  size_t key_length;
  const char* value;
  size_t value_length;
};

// `steps`: 1 forward, -1 backward, 0 not at all. Returns 0, without an entry, if the iterator has no position. The
// entry is valid until the next move.
unsigned char nagi_iterator_step(rocksdb_iterator_t* iterator, int steps,
                                 nagi_entry* entry) noexcept {
  rocksdb::Iterator* rep = iterator->rep;
  if (steps > 0) {
    rep->Next();
  } else if (steps < 0) {
    rep->Prev();
  }
  if (!rep->Valid()) {
    return 0;
  }
  const rocksdb::Slice key = rep->key();
  const rocksdb::Slice value = rep->value();
  if (steps > 0) {
    FetchNext(value);
  }
  *entry = {key.data(), key.size(), value.data(), value.size()};
  return 1;
}

}  // extern "C"
