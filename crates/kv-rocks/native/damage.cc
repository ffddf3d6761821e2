// Keeps writes going after a compaction has met a damaged block.
//
// RocksDB treats such an error as fatal and refuses writes until the database is reopened. But nothing has changed:
// a failed compaction leaves its inputs unchanged, and a read of that block fails with or without it. So the error
// is reported to the engine and cleared.

#include <rocksdb/listener.h>
#include <rocksdb/options.h>

#include <cstddef>
#include <memory>
#include <string>

#include "handles.h"

// src/db/listen/ffi.rs
extern "C" void nagi_compaction_failed(const void* damaged, const char* space, size_t space_length, const char* text,
                                       size_t text_length);
extern "C" void nagi_flush_begun(const void* damaged, int job);
extern "C" void nagi_flush_finished(const void* damaged, int job);

namespace {

using namespace rocksdb;

// The stored data is missing or was changed.
bool IsDamage(const Status& status) { return status.IsCorruption() || status.IsPathNotFound(); }

class DamageListener : public EventListener {
 public:
  explicit DamageListener(const void* damaged) : damaged_(damaged) {}

  void OnCompactionCompleted(DB*, const CompactionJobInfo& job) override {
    if (!IsDamage(job.status)) return;
    const std::string text = job.status.ToString();
    nagi_compaction_failed(damaged_, job.cf_name.data(), job.cf_name.size(), text.data(), text.size());
  }

  void OnFlushBegin(DB*, const FlushJobInfo& job) override { nagi_flush_begun(damaged_, job.job_id); }

  void OnFlushCompleted(DB*, const FlushJobInfo& job) override { nagi_flush_finished(damaged_, job.job_id); }

  void OnBackgroundError(BackgroundErrorReason reason, Status* error) override {
    if (reason == BackgroundErrorReason::kCompaction && IsDamage(*error)) *error = Status::OK();
  }

 private:
  const void* damaged_;
};

}  // namespace

// `damaged` outlives the database that is opened with the options.
extern "C" void nagi_damage_listen(rocksdb_options_t* options, const void* damaged) noexcept {
  options->rep.listeners.push_back(std::make_shared<DamageListener>(damaged));
}
