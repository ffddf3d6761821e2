// Forward scans of a snapshot, on the iterator below RocksDB's public one.
//
// The public iterator (DBIter) takes half of the instructions of a step, because an entry may be a wide column or a
// blob, and the next move may go backward. A scan only has to find the newest visible version of each key, to put it
// together if it was stored as differences, and to leave out what is deleted. What range deletions cover is left out
// by the merging iterator below, which also stops at the upper bound, but for entries in memory. The lower bound is
// kept by `RocksCursor::seek`.

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/dbformat.h"
#include "entry.h"
#include "handles.h"
#include "memory/arena.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/merge_operator.h"
#include "table/internal_iterator.h"
#include "util/coding.h"

struct nagi_scan;

namespace {

// Versions of one key that are stepped over; then the scan seeks behind them. RocksDB's default for its own iterators.
constexpr int kStepsOver = 8;

// A copy of a key. It is made and compared at every step, and a std::string would take a third of the step's time.
class KeyCopy {
 public:
  void Assign(const rocksdb::Slice& key) {
    size_ = key.size();
    if (kWordBytes <= size_ && size_ <= 2 * kWordBytes) {
      // Two words, which may overlap, instead of a call.
      memcpy(short_, key.data(), kWordBytes);
      memcpy(short_ + size_ - kWordBytes, key.data() + size_ - kWordBytes, kWordBytes);
    } else if (size_ <= sizeof(short_)) {
      memcpy(short_, key.data(), size_);
    } else {
      long_.assign(key.data(), size_);
    }
  }

  bool operator==(const rocksdb::Slice& key) const {
    // Neighbours differ in their last byte.
    return key.size() == size_ && (size_ == 0 || key[size_ - 1] == Bytes()[size_ - 1]) &&
           memcmp(key.data(), Bytes(), size_) == 0;
  }

  rocksdb::Slice Get() const { return rocksdb::Slice(Bytes(), size_); }

 private:
  static constexpr size_t kWordBytes = 8;

  const char* Bytes() const { return size_ <= sizeof(short_) ? short_ : long_.data(); }

  size_t size_ = 0;
  char short_[4 * kWordBytes];
  std::string long_;
};

class ForwardScan {
 public:
  ForwardScan(rocksdb::DB* db, const rocksdb::ReadOptions& reads, rocksdb::ColumnFamilyHandle* family)
      : db_(static_cast<rocksdb::DBImpl*>(db->GetRootDB())),
        family_(static_cast<rocksdb::ColumnFamilyHandleImpl*>(family)->cfd()),
        reads_(reads),
        sequence_(reads.snapshot->GetSequenceNumber()) {
    reads_.io_activity = rocksdb::Env::IOActivity::kDBIterator;
    Open();
  }

  ~ForwardScan() { Close(); }

  ForwardScan(const ForwardScan&) = delete;
  ForwardScan& operator=(const ForwardScan&) = delete;

  bool Seek(const rocksdb::Slice& key, nagi_entry* entry) {
    if (IsOutdated()) {
      Close();
      Open();
    }
    RecordTick(family_->ioptions().stats, rocksdb::NUMBER_DB_SEEK);
    status_ = rocksdb::Status::OK();
    passing_ = false;
    is_ahead_ = false;
    Search(key, sequence_, rocksdb::kValueTypeForSeek);
    return iterator_->Valid() && FindVisible(Here(), entry);
  }

  bool Next(nagi_entry* entry) {
    // A scan that lasts must not keep old memtables and files.
    if (IsOutdated()) {
      Renew();
      is_ahead_ = true;
    }
    if (is_ahead_) {
      is_ahead_ = false;
      return iterator_->Valid() && FindVisible(Here(), entry);
    }
    rocksdb::IterateResult found;
    if (!iterator_->NextAndGetResult(&found)) {
      return false;
    }
    const bool found_one = FindVisible(found, entry);
    if (found_one) {
      nagi::FetchNext(rocksdb::Slice(entry->value, entry->value_length));
    }
    return found_one;
  }

  rocksdb::Status Status() const { return status_.ok() ? iterator_->status() : status_; }

 private:
  void Open() {
    rocksdb::SuperVersion* version = family_->GetReferencedSuperVersion(db_);
    version_ = version->version_number;
    arena_.emplace();
    iterator_ = db_->NewInternalIterator(reads_, family_, version, &*arena_, sequence_, true);
  }

  void Close() {
    // The arena owns its memory.
    iterator_->~InternalIteratorBase();
    arena_.reset();
  }

  bool IsOutdated() const { return family_->GetSuperVersionNumberRelaxed() != version_; }

  // Searches the current key in the current memtables and files, to pass it.
  void Renew() {
    if (!passing_) {
      Pass(rocksdb::ExtractUserKey(iterator_->key()));
    }
    Close();
    Open();
    Search(passed_.Get(), sequence_, rocksdb::kValueTypeForSeek);
  }

  void Search(const rocksdb::Slice& key, rocksdb::SequenceNumber sequence, rocksdb::ValueType type) {
    target_.clear();
    rocksdb::AppendInternalKey(&target_, rocksdb::ParsedInternalKey(key, sequence, type));
    iterator_->Seek(target_);
  }

  rocksdb::IterateResult Here() {
    rocksdb::IterateResult here;
    here.key = iterator_->key();
    here.bound_check_result = iterator_->UpperBoundCheckResult();
    here.value_prepared = false;
    return here;
  }

  bool IsBehindTheEnd(const rocksdb::IterateResult& found, const rocksdb::Slice& key) const {
    return found.bound_check_result != rocksdb::IterBoundCheck::kInbound && reads_.iterate_upper_bound != nullptr &&
           key.compare(*reads_.iterate_upper_bound) >= 0;
  }

  // Finds the first visible entry from `found` on, without the key `passed_` if `passing_`.
  bool FindVisible(rocksdb::IterateResult found, nagi_entry* entry) {
    for (int over = 0;;) {
      if (found.key.size() < rocksdb::kNumInternalBytes) {
        return Fail("an internal key is too short");
      }
      const rocksdb::Slice key = rocksdb::ExtractUserKey(found.key);
      if (IsBehindTheEnd(found, key)) {
        return false;
      }
      const uint64_t packed = rocksdb::DecodeFixed64(key.data() + key.size());
      const rocksdb::SequenceNumber sequence = packed >> 8;
      // Where to search if there were too many.
      bool seek = false;
      rocksdb::SequenceNumber to = 0;
      rocksdb::ValueType type = rocksdb::kTypeDeletion;
      if (passing_ && passed_ == key) {
        seek = ++over > kStepsOver;
      } else if (sequence > sequence_) {
        over = newer_ == key ? over + 1 : 0;
        newer_.Assign(key);
        seek = over > kStepsOver;
        to = sequence_;
        type = rocksdb::kValueTypeForSeek;
      } else {
        switch (static_cast<rocksdb::ValueType>(packed & 0xff)) {
          case rocksdb::kTypeValue:
            return Take(found, sequence, entry);
          case rocksdb::kTypeDeletion:
          case rocksdb::kTypeSingleDeletion:
            Pass(key);
            over = 0;
            break;
          case rocksdb::kTypeMerge:
            return Merge(key, entry);
          default:
            return Fail("an entry of an unknown type");
        }
      }
      if (seek) {
        over = 0;
        const std::string from = key.ToString();
        Search(from, to, type);
        if (!iterator_->Valid()) {
          return false;
        }
        found = Here();
      } else if (!iterator_->NextAndGetResult(&found)) {
        return false;
      }
    }
  }

  bool Take(const rocksdb::IterateResult& found, rocksdb::SequenceNumber sequence, nagi_entry* entry) {
    if (!found.value_prepared && !iterator_->PrepareValue()) {
      return false;
    }
    // Not that of `found`: the key can have moved from the index into the block.
    const rocksdb::Slice key = rocksdb::ExtractUserKey(iterator_->key());
    const rocksdb::Slice value = iterator_->value();
    *entry = {key.data(), key.size(), value.data(), value.size()};
    // The number is zero when no older version is left.
    passing_ = sequence != 0;
    if (passing_) {
      Pass(key);
    }
    return true;
  }

  // Puts the newest version of `key` together. The iterator is on its newest difference. It ends on the version below
  // the oldest difference, or on the next key if there is none.
  bool Merge(const rocksdb::Slice& key, nagi_entry* entry) {
    Pass(key);
    differences_.clear();
    rocksdb::IterateResult found;
    for (;;) {
      if (!iterator_->PrepareValue()) {
        return false;
      }
      differences_.push_back(iterator_->value().ToString());
      if (!iterator_->NextAndGetResult(&found)) {
        is_ahead_ = true;
        return iterator_->status().ok() && Put(nullptr, entry);
      }
      if (found.key.size() < rocksdb::kNumInternalBytes) {
        return Fail("an internal key is too short");
      }
      if (!(passed_ == rocksdb::ExtractUserKey(found.key))) {
        is_ahead_ = true;
        return Put(nullptr, entry);
      }
      const rocksdb::ValueType type = rocksdb::ExtractValueType(found.key);
      if (type == rocksdb::kTypeValue) {
        if (!iterator_->PrepareValue()) {
          return false;
        }
        const rocksdb::Slice older = iterator_->value();
        return Put(&older, entry);
      }
      if (type == rocksdb::kTypeDeletion || type == rocksdb::kTypeSingleDeletion) {
        return Put(nullptr, entry);
      }
      if (type != rocksdb::kTypeMerge) {
        return Fail("an entry of an unknown type");
      }
    }
  }

  // Makes the key `passed_` with its differences over `older` the entry.
  bool Put(const rocksdb::Slice* older, nagi_entry* entry) {
    const rocksdb::MergeOperator* merge = family_->ioptions().merge_operator.get();
    if (merge == nullptr) {
      return Fail("a difference in a space without any");
    }
    const rocksdb::Slice key = passed_.Get();
    // From the oldest one, as an operator expects them.
    const std::vector<rocksdb::Slice> differences(differences_.rbegin(), differences_.rend());
    rocksdb::Slice one(nullptr, 0);
    merged_.clear();
    const rocksdb::MergeOperator::MergeOperationInput in(key, older, differences, nullptr);
    rocksdb::MergeOperator::MergeOperationOutput out(merged_, one);
    if (!merge->FullMergeV2(in, &out)) {
      return Fail("differences that cannot be put together");
    }
    *entry = one.data() == nullptr ? nagi_entry{key.data(), key.size(), merged_.data(), merged_.size()}
                                   : nagi_entry{key.data(), key.size(), one.data(), one.size()};
    return true;
  }

  bool Fail(const char* what) {
    status_ = rocksdb::Status::Corruption(what);
    return false;
  }

  void Pass(const rocksdb::Slice& key) {
    passing_ = true;
    passed_.Assign(key);
  }

  rocksdb::DBImpl* db_;
  rocksdb::ColumnFamilyData* family_;
  rocksdb::ReadOptions reads_;
  rocksdb::SequenceNumber sequence_;
  rocksdb::Status status_;
  std::optional<rocksdb::Arena> arena_;
  rocksdb::InternalIterator* iterator_ = nullptr;
  uint64_t version_ = 0;
  // Older versions of this key, and the deleted one, are hidden.
  bool passing_ = false;
  KeyCopy passed_;
  // True if the iterator is on an entry that was not examined yet, or at its end.
  bool is_ahead_ = false;
  // The newest one first.
  std::vector<std::string> differences_;
  std::string merged_;
  // The last key with a version that is newer than the snapshot.
  KeyCopy newer_;
  std::string target_;
};

ForwardScan* Of(nagi_scan* scan) { return reinterpret_cast<ForwardScan*>(scan); }

}  // namespace

extern "C" {

// The options must have a snapshot, and live as long as the scan.
nagi_scan* nagi_scan_create(rocksdb_t* db, const rocksdb_readoptions_t* reads,
                            rocksdb_column_family_handle_t* family) noexcept {
  return reinterpret_cast<nagi_scan*>(new ForwardScan(db->rep, reads->rep, family->rep));
}

void nagi_scan_destroy(nagi_scan* scan) noexcept { delete Of(scan); }

// Both return 1 with an entry that is valid until the next move, and 0 at the end or after an error.
unsigned char nagi_scan_seek(nagi_scan* scan, const char* key, size_t key_length, nagi_entry* entry) noexcept {
  return Of(scan)->Seek(rocksdb::Slice(key, key_length), entry);
}

unsigned char nagi_scan_next(nagi_scan* scan, nagi_entry* entry) noexcept { return Of(scan)->Next(entry); }

// Sets `error` to a text to be freed if the scan has ended with an error.
void nagi_scan_get_error(nagi_scan* scan, char** error) noexcept {
  const rocksdb::Status status = Of(scan)->Status();
  if (!status.ok()) {
    *error = strdup(status.ToString().c_str());
  }
}

}  // extern "C"
