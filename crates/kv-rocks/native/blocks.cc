// A large entry has a data block of its own.
//
// RocksDB ends a block when it has its size, and would put a document of 16 MB into the block of the small ones before
// it, which may be those of another collection: whoever reads one of them would have to wait for the memory of the
// large one.

#include <rocksdb/flush_block_policy.h>
#include <rocksdb/table.h>

#include <memory>

// src/db/listen/ffi.rs
extern "C" void nagi_value_written(size_t bytes);

#include "handles.h"
#include "table/block_based/block_builder.h"

namespace {

// Several times the size of a block.
constexpr size_t kOwnBlockBytes = 64 << 10;
// Larger values count in the memory of the thread that writes them.
constexpr size_t kCountedBytes = 1 << 20;

class LargeAlone : public rocksdb::FlushBlockPolicy {
 public:
  LargeAlone(const rocksdb::BlockBasedTableOptions& table, const rocksdb::BlockBuilder& block)
      : block_(block), by_size_(rocksdb::FlushBlockBySizePolicyFactory().NewFlushBlockPolicy(table, block)) {}

  bool Update(const rocksdb::Slice& key, const rocksdb::Slice& value) override {
    if (value.size() >= kCountedBytes) nagi_value_written(value.size());
    if (value.size() >= kOwnBlockBytes && !block_.empty()) return true;
    return by_size_->Update(key, value);
  }

 private:
  const rocksdb::BlockBuilder& block_;
  std::unique_ptr<rocksdb::FlushBlockPolicy> by_size_;
};

class LargeAloneFactory : public rocksdb::FlushBlockPolicyFactory {
 public:
  const char* Name() const override { return "NagiLargeAlone"; }

  rocksdb::FlushBlockPolicy* NewFlushBlockPolicy(const rocksdb::BlockBasedTableOptions& table,
                                                 const rocksdb::BlockBuilder& block) const override {
    return new LargeAlone(table, block);
  }
};

}  // namespace

extern "C" {

void nagi_table_large_alone(rocksdb_block_based_table_options_t* table) noexcept {
  table->rep.flush_block_policy_factory = std::make_shared<LargeAloneFactory>();
}
}
