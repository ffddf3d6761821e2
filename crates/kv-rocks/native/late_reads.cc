// A compaction reads a large value when it comes to it, and releases it when it has passed it.
//
// RocksDB's iterators of compactions read the block of each file's next entry, and keep it until the merge comes there:
// a merge of ten files with documents of 14 MB holds ten of them. They also keep the buffer with which a file was read
// until its last entry. Iterators of scans wait with the read if the index has the first key of each block. So
// compactions get those, which read when their value is needed, and which are replaced once a large value was passed.
//
// They end when the database is to be closed, as if it was being closed: RocksDB's own flag for that stops flushes, too,
// and its call to cancel compactions is heard after a thousand entries, which may be gigabytes.

#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/pinned_iterators_manager.h"
#include "handles.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/internal_iterator.h"
#include "table/table_reader.h"

namespace {

// Larger values have blocks of their own (see blocks.cc), and buffers worth releasing.
constexpr size_t kReleasedBytes = 256 << 10;

// Moves forward only, as compactions do.
class LateIterator : public rocksdb::InternalIterator {
 public:
  // What makes another iterator over the same file.
  struct Source {
    rocksdb::TableReader* table;
    const rocksdb::ReadOptions* reads;
    const rocksdb::SliceTransform* prefix;
    bool skip_filters;
    size_t read_ahead;
    // Outlives the database.
    const std::atomic<bool>* closing;

    rocksdb::InternalIterator* New() const {
      return table->NewIterator(*reads, prefix, nullptr, skip_filters, rocksdb::TableReaderCaller::kCompaction,
                                read_ahead, /*allow_unprepared_value=*/true);
    }
  };

  explicit LateIterator(const Source& source) : source_(source), inner_(source.New()) {}

  bool Valid() const override { return !ended_ && inner_ != nullptr && inner_->Valid(); }
  rocksdb::Slice key() const override { return inner_->key(); }
  rocksdb::Slice user_key() const override { return inner_->user_key(); }
  rocksdb::Status status() const override {
    if (ended_) return rocksdb::Status::ShutdownInProgress();
    return inner_ == nullptr ? rocksdb::Status::OK() : inner_->status();
  }

  // Empty if the block cannot be read. Then the iterator is not valid any more and has the error, so that the
  // compaction fails with its next step.
  rocksdb::Slice value() const override {
    if (!inner_->PrepareValue()) return rocksdb::Slice();
    const rocksdb::Slice value = inner_->value();
    is_large_ = value.size() > kReleasedBytes;
    return value;
  }

  bool PrepareValue() override { return inner_->PrepareValue(); }

  void Next() override {
    if (!Valid()) return;
    if (source_.closing->load(std::memory_order_relaxed)) {
      ended_ = true;
      return;
    }
    inner_->Next();
    if (is_large_) Release();
  }

  bool NextAndGetResult(rocksdb::IterateResult* result) override {
    Next();
    if (!Valid()) return false;
    result->key = key();
    result->bound_check_result = rocksdb::IterBoundCheck::kUnknown;
    // `value` reads it.
    result->value_prepared = true;
    return true;
  }

  void Seek(const rocksdb::Slice& target) override {
    Begin();
    inner_->Seek(target);
  }
  void SeekToFirst() override {
    Begin();
    inner_->SeekToFirst();
  }
  void SeekToLast() override {
    Begin();
    inner_->SeekToLast();
  }
  void SeekForPrev(const rocksdb::Slice& target) override {
    Begin();
    inner_->SeekForPrev(target);
  }
  void Prev() override {
    is_large_ = false;
    inner_->Prev();
  }

  void SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* pins) override {
    pins_ = pins;
    if (inner_ != nullptr) inner_->SetPinnedItersMgr(pins);
  }
  bool IsKeyPinned() const override { return inner_->IsKeyPinned(); }
  bool IsValuePinned() const override { return inner_->PrepareValue() && inner_->IsValuePinned(); }

  uint64_t write_unix_time() const override { return inner_->write_unix_time(); }

 private:
  void Begin() {
    is_large_ = false;
    if (inner_ != nullptr) return;
    inner_.reset(source_.New());
    inner_->SetPinnedItersMgr(pins_);
  }

  // Replaces the iterator, which has the buffer of the last read, by one at the same entry; by none at the end.
  void Release() {
    is_large_ = false;
    if (!inner_->status().ok() || (pins_ != nullptr && pins_->PinningEnabled())) return;
    if (!inner_->Valid()) {
      inner_.reset();
      return;
    }
    const std::string at = inner_->key().ToString();
    inner_.reset(source_.New());
    inner_->SetPinnedItersMgr(pins_);
    inner_->Seek(at);
  }

  const Source source_;
  std::unique_ptr<rocksdb::InternalIterator> inner_;
  rocksdb::PinnedIteratorsManager* pins_ = nullptr;
  mutable bool is_large_ = false;
  bool ended_ = false;
};

// Passes everything to RocksDB's table, except for iterators of compactions.
class LateTable : public rocksdb::TableReader {
 public:
  LateTable(std::unique_ptr<rocksdb::TableReader>&& inner, const std::atomic<bool>* closing)
      : inner_(std::move(inner)), closing_(closing) {}

  rocksdb::InternalIterator* NewIterator(const rocksdb::ReadOptions& reads, const rocksdb::SliceTransform* prefix,
                                         rocksdb::Arena* arena, bool skip_filters, rocksdb::TableReaderCaller caller,
                                         size_t read_ahead, bool allow_unprepared_value) override {
    // With an upper bound the index may be ahead of the entry, and its key with it.
    if (caller == rocksdb::TableReaderCaller::kCompaction && arena == nullptr &&
        reads.iterate_upper_bound == nullptr) {
      return new LateIterator({inner_.get(), &reads, prefix, skip_filters, read_ahead, closing_});
    }
    return inner_->NewIterator(reads, prefix, arena, skip_filters, caller, read_ahead, allow_unprepared_value);
  }

  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(const rocksdb::ReadOptions& reads) override {
    return inner_->NewRangeTombstoneIterator(reads);
  }
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(rocksdb::SequenceNumber sequence,
                                                                       const rocksdb::Slice* timestamp) override {
    return inner_->NewRangeTombstoneIterator(sequence, timestamp);
  }
  uint64_t ApproximateOffsetOf(const rocksdb::ReadOptions& reads, const rocksdb::Slice& key,
                               rocksdb::TableReaderCaller caller) override {
    return inner_->ApproximateOffsetOf(reads, key, caller);
  }
  uint64_t ApproximateSize(const rocksdb::ReadOptions& reads, const rocksdb::Slice& start, const rocksdb::Slice& end,
                           rocksdb::TableReaderCaller caller) override {
    return inner_->ApproximateSize(reads, start, end, caller);
  }
  rocksdb::Status ApproximateKeyAnchors(const rocksdb::ReadOptions& reads, std::vector<Anchor>& anchors) override {
    return inner_->ApproximateKeyAnchors(reads, anchors);
  }
  void SetupForCompaction() override { inner_->SetupForCompaction(); }
  std::shared_ptr<const rocksdb::TableProperties> GetTableProperties() const override {
    return inner_->GetTableProperties();
  }
  void Prepare(const rocksdb::Slice& target) override { inner_->Prepare(target); }
  size_t ApproximateMemoryUsage() const override { return inner_->ApproximateMemoryUsage(); }
  rocksdb::Status Get(const rocksdb::ReadOptions& reads, const rocksdb::Slice& key, rocksdb::GetContext* context,
                      const rocksdb::SliceTransform* prefix, bool skip_filters) override {
    return inner_->Get(reads, key, context, prefix, skip_filters);
  }
  rocksdb::Status MultiGetFilter(const rocksdb::ReadOptions& reads, const rocksdb::SliceTransform* prefix,
                                 rocksdb::MultiGetContext::Range* range) override {
    return inner_->MultiGetFilter(reads, prefix, range);
  }
  void MultiGet(const rocksdb::ReadOptions& reads, const rocksdb::MultiGetContext::Range* range,
                const rocksdb::SliceTransform* prefix, bool skip_filters) override {
    inner_->MultiGet(reads, range, prefix, skip_filters);
  }
  rocksdb::Status Prefetch(const rocksdb::ReadOptions& reads, const rocksdb::Slice* begin,
                           const rocksdb::Slice* end) override {
    return inner_->Prefetch(reads, begin, end);
  }
  rocksdb::Status DumpTable(rocksdb::WritableFile* out, bool show_sequence_number_type) override {
    return inner_->DumpTable(out, show_sequence_number_type);
  }
  rocksdb::Status VerifyChecksum(const rocksdb::ReadOptions& reads, rocksdb::TableReaderCaller caller,
                                 bool meta_blocks_only) override {
    return inner_->VerifyChecksum(reads, caller, meta_blocks_only);
  }
  void MarkObsolete(uint32_t uncache_aggressiveness) override { inner_->MarkObsolete(uncache_aggressiveness); }

 private:
  const std::unique_ptr<rocksdb::TableReader> inner_;
  const std::atomic<bool>* const closing_;
};

// Has the name of RocksDB's own, whose options may be changed while the database is open.
class LateTables : public rocksdb::BlockBasedTableFactory {
 public:
  using BlockBasedTableFactory::NewTableReader;

  LateTables(const rocksdb::BlockBasedTableOptions& options, const std::atomic<bool>* closing)
      : BlockBasedTableFactory(options), closing_(closing) {}

  rocksdb::Status NewTableReader(const rocksdb::ReadOptions& reads, const rocksdb::TableReaderOptions& options,
                                 std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                                 std::unique_ptr<rocksdb::TableReader>* table, bool prefetch) const override {
    std::unique_ptr<rocksdb::TableReader> inner;
    const rocksdb::Status status =
        BlockBasedTableFactory::NewTableReader(reads, options, std::move(file), file_size, &inner, prefetch);
    if (inner != nullptr) *table = std::make_unique<LateTable>(std::move(inner), closing_);
    return status;
  }

  std::unique_ptr<rocksdb::TableFactory> Clone() const override { return std::make_unique<LateTables>(*this); }

 private:
  const std::atomic<bool>* closing_;
};

}  // namespace

extern "C" {

// `closing` outlives the database; compactions end once it is true.
void nagi_options_tables(rocksdb_options_t* options, const rocksdb_block_based_table_options_t* table,
                         const std::atomic<bool>* closing) noexcept {
  options->rep.table_factory = std::make_shared<LateTables>(table->rep, closing);
}
}
