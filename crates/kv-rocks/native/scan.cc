// Forward scans of a snapshot, on the iterator below RocksDB's public one.
//
// The public iterator (DBIter) takes half of the instructions of a step, because an entry may be a merge, a wide column
// or a blob, and the next move may go backward. A scan of plain values only has to find the newest visible version of
// each key and to leave out what is deleted. At any other entry it stops, and the caller continues with a public
// iterator.

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/dbformat.h"
#include "entry.h"
#include "handles.h"
#include "memory/arena.h"
#include "table/internal_iterator.h"
#include "util/coding.h"

struct nagi_scan;

namespace {

// Versions of one key that are stepped over; then the scan seeks behind them. RocksDB's default for its own iterators.
constexpr int kStepsOver = 8;

enum Found { kNone = 0, kEntry = 1, kOther = 2 };

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

  Found Seek(const rocksdb::Slice& key, nagi_entry* entry) {
    if (IsOutdated()) {
      Close();
      Open();
    }
    passing_ = false;
    Search(key, sequence_, rocksdb::kValueTypeForSeek);
    return iterator_->Valid() ? FindVisible(Here(), entry) : kNone;
  }

  Found Next(nagi_entry* entry) {
    // A scan that lasts must not keep old memtables and files.
    if (IsOutdated()) {
      Renew();
      return iterator_->Valid() ? FindVisible(Here(), entry) : kNone;
    }
    rocksdb::IterateResult found;
    if (!iterator_->NextAndGetResult(&found)) {
      return kNone;
    }
    const Found result = FindVisible(found, entry);
    if (result == kEntry) {
      nagi::FetchNext(rocksdb::Slice(entry->value, entry->value_length));
    }
    return result;
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

  // Continues behind the current key with the current memtables and files.
  void Renew() {
    Pass(rocksdb::ExtractUserKey(iterator_->key()));
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
  Found FindVisible(rocksdb::IterateResult found, nagi_entry* entry) {
    for (int over = 0;;) {
      if (found.key.size() < rocksdb::kNumInternalBytes) {
        status_ = rocksdb::Status::Corruption("an internal key is too short");
        return kNone;
      }
      const rocksdb::Slice key = rocksdb::ExtractUserKey(found.key);
      if (IsBehindTheEnd(found, key)) {
        return kNone;
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
          default:
            *entry = {key.data(), key.size(), nullptr, 0};
            return kOther;
        }
      }
      if (seek) {
        over = 0;
        const std::string from = key.ToString();
        Search(from, to, type);
        if (!iterator_->Valid()) {
          return kNone;
        }
        found = Here();
      } else if (!iterator_->NextAndGetResult(&found)) {
        return kNone;
      }
    }
  }

  Found Take(const rocksdb::IterateResult& found, rocksdb::SequenceNumber sequence, nagi_entry* entry) {
    if (!found.value_prepared && !iterator_->PrepareValue()) {
      return kNone;
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
    return kEntry;
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

// Both return 0 without an entry, 1 with an entry that is valid until the next move, and 2 with the key of an entry
// that only a public iterator can read.
int nagi_scan_seek(nagi_scan* scan, const char* key, size_t key_length, nagi_entry* entry) noexcept {
  return Of(scan)->Seek(rocksdb::Slice(key, key_length), entry);
}

int nagi_scan_next(nagi_scan* scan, nagi_entry* entry) noexcept { return Of(scan)->Next(entry); }

// Sets `error` to a text to be freed if the scan has ended with an error.
void nagi_scan_get_error(nagi_scan* scan, char** error) noexcept {
  const rocksdb::Status status = Of(scan)->Status();
  if (!status.ok()) {
    *error = strdup(status.ToString().c_str());
  }
}

}  // extern "C"
