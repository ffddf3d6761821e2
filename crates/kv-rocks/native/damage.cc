// Keeps writes going after a compaction has met a damaged block.
//
// RocksDB treats such an error as fatal and refuses writes until the database is reopened. But nothing has changed:
// a failed compaction leaves its inputs unchanged, and a read of that block fails with or without it. So the error
// is reported to the engine and cleared.
//
// The same listener tells the engine of flushes, compactions and loads; RocksDB calls it on the thread of the job.

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
extern "C" void nagi_compaction_begun(const void* damaged);
// As in src/db/listen/ffi.rs.
struct nagi_work {
  int kind;  // 0 flush, 1 compaction, 2 load
  int job;
  int reason;
  int from_level;
  int to_level;
  int failed;
  const char* space;
  size_t space_length;
  uint64_t micros;
  uint64_t files_read;
  uint64_t files_written;
  uint64_t bytes_read;
  uint64_t bytes_written;
  uint64_t entries_read;
  uint64_t entries_written;
};
extern "C" void nagi_work_finished(const void* damaged, const nagi_work* work);

namespace {

using namespace rocksdb;

// The stored data is missing or was changed.
bool IsDamage(const Status& status) { return status.IsCorruption() || status.IsPathNotFound(); }

class DamageListener : public EventListener {
 public:
  explicit DamageListener(const void* damaged) : damaged_(damaged) {}

  void OnCompactionBegin(DB*, const CompactionJobInfo&) override { nagi_compaction_begun(damaged_); }

  void OnCompactionCompleted(DB*, const CompactionJobInfo& job) override {
    nagi_work work = WorkOf(1, job.job_id, static_cast<int>(job.compaction_reason), job.cf_name);
    work.from_level = job.base_input_level;
    work.to_level = job.output_level;
    work.failed = job.status.ok() ? 0 : 1;
    work.micros = job.stats.elapsed_micros;
    work.files_read = job.input_files.size();
    work.files_written = job.output_files.size();
    work.bytes_read = job.stats.total_input_bytes;
    work.bytes_written = job.stats.total_output_bytes;
    work.entries_read = job.stats.num_input_records;
    work.entries_written = job.stats.num_output_records;
    nagi_work_finished(damaged_, &work);
    if (!IsDamage(job.status)) return;
    const std::string text = job.status.ToString();
    nagi_compaction_failed(damaged_, job.cf_name.data(), job.cf_name.size(), text.data(), text.size());
  }

  void OnFlushBegin(DB*, const FlushJobInfo& job) override { nagi_flush_begun(damaged_, job.job_id); }

  void OnFlushCompleted(DB*, const FlushJobInfo& job) override {
    nagi_work work = WorkOf(0, job.job_id, static_cast<int>(job.flush_reason), job.cf_name);
    const TableProperties& table = job.table_properties;
    work.files_written = 1;
    work.bytes_written = table.data_size + table.index_size + table.filter_size;
    work.entries_read = table.num_entries;
    work.entries_written = table.num_entries;
    nagi_work_finished(damaged_, &work);
  }

  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo& info) override {
    nagi_work work = WorkOf(2, 0, 0, info.cf_name);
    const TableProperties& table = info.table_properties;
    work.files_written = 1;
    work.bytes_written = table.data_size + table.index_size + table.filter_size;
    work.entries_written = table.num_entries;
    nagi_work_finished(damaged_, &work);
  }

  void OnBackgroundError(BackgroundErrorReason reason, Status* error) override {
    if (reason == BackgroundErrorReason::kCompaction && IsDamage(*error)) *error = Status::OK();
  }

 private:
  static nagi_work WorkOf(int kind, int job, int reason, const std::string& space) {
    nagi_work work = {};
    work.kind = kind;
    work.job = job;
    work.reason = reason;
    work.space = space.data();
    work.space_length = space.size();
    return work;
  }

  const void* damaged_;
};

}  // namespace

// `damaged` outlives the database that is opened with the options.
extern "C" void nagi_damage_listen(rocksdb_options_t* options, const void* damaged) noexcept {
  options->rep.listeners.push_back(std::make_shared<DamageListener>(damaged));
}
