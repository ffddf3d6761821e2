// Moves an iterator and returns its entry, in one call.
//
// RocksDB's C interface has separate calls for the move, the validity, the key and the value, each with a virtual call
// behind it. A scan needs all four for every entry.

#include <rocksdb/iterator.h>

#include "entry.h"
#include "handles.h"

// `steps`: 1 forward, -1 backward, 0 not at all. Returns 0, without an entry, if the iterator has no position. The
// entry is valid until the next move.
extern "C" unsigned char nagi_iterator_step(rocksdb_iterator_t* iterator, int steps, nagi_entry* entry) noexcept {
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
    nagi::FetchNext(value);
  }
  *entry = {key.data(), key.size(), value.data(), value.size()};
  return 1;
}
