// Appends the entries of one write batch to another, and makes room in a batch: RocksDB has these functions in internal
// headers only.
//
// A batch is a string: 8 bytes of sequence number, 4 bytes of count, then the entries. The flags that say which kinds
// of entries a batch has are not updated: they matter for range deletions, which are never appended, and for merges while
// several threads insert into one memtable, which is off.

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "handles.h"

namespace {

constexpr size_t kBatchCount = 8;
constexpr size_t kBatchHeader = 12;

// Opens the string of a batch.
struct OpenBatch : rocksdb::WriteBatch {
  static std::string& bytes(rocksdb::WriteBatch& batch) { return batch.*(&OpenBatch::rep_); }
};

}  // namespace

extern "C" void nagi_batch_reserve(rocksdb_writebatch_t* batch, size_t bytes) noexcept {
  OpenBatch::bytes(batch->rep).reserve(bytes);
}

extern "C" void nagi_batch_append(rocksdb_writebatch_t* to, const rocksdb_writebatch_t* from) noexcept {
  const std::string& source = from->rep.Data();
  std::string& bytes = OpenBatch::bytes(to->rep);
  uint32_t count = to->rep.Count() + from->rep.Count();
  for (size_t byte = 0; byte < sizeof(count); ++byte) {
    bytes[kBatchCount + byte] = static_cast<char>(count >> (8 * byte));
  }
  bytes.append(source, kBatchHeader);
}
