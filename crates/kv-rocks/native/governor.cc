// Settings of the latency governor that RocksDB's C interface lacks.

#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/sst_file_manager.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "handles.h"

struct nagi_remover_t {
  std::shared_ptr<rocksdb::SstFileManager> rep;
};

namespace {
// A file system mounted with `discard` notifies the disk of every freed block, and some disks do not respond
// meanwhile. So files are truncated in small pieces.
constexpr uint64_t kPieceBytes = 4 << 20;
// If this fraction of all files waits to be removed, more are removed at once.
constexpr double kWaitingShare = 0.25;

// From linux/ioprio.h, which older systems lack: this thread; the lowest priority of the best-effort class.
constexpr int kProcess = 1;
constexpr int kLastOfOrdinary = (2 << 13) | 7;

// Gives compaction threads the lowest disk priority, if the scheduler supports priorities (bfq does). The idle
// class is not used, because writes would stop if compactions starve.
class LastAtTheDisk : public rocksdb::EventListener {
 public:
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    thread_local const long set = syscall(SYS_ioprio_set, kProcess, 0, kLastOfOrdinary);
    (void)set;  // A system that forbids it serves in the order of arrival.
  }
};
}  // namespace

extern "C" void nagi_rate_limiter_set(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) noexcept {
  limiter->rep->SetBytesPerSecond(bytes_per_second);
}

// Gives compactions of the database of `options` the lowest disk priority.
extern "C" void nagi_compaction_last_at_the_disk(rocksdb_options_t* options) noexcept {
  options->rep.listeners.push_back(std::make_shared<LastAtTheDisk>());
}

// Makes the database of `options` remove its files at a limited rate. Must be called after the environment is set.
extern "C" nagi_remover_t* nagi_remover_create(rocksdb_options_t* options) noexcept {
  auto* env = options->rep.env;
  std::shared_ptr<rocksdb::SstFileManager> rep(rocksdb::NewSstFileManager(
      env, env->GetFileSystem(), nullptr, "", 0, true, nullptr, kWaitingShare, kPieceBytes));
  options->rep.sst_file_manager = rep;
  return new nagi_remover_t{rep};
}

// Zero: no limit.
extern "C" void nagi_remover_set_rate(nagi_remover_t* remover, int64_t bytes_per_second) noexcept {
  remover->rep->SetDeleteRateBytesPerSecond(bytes_per_second);
}

extern "C" void nagi_remover_destroy(nagi_remover_t* remover) noexcept { delete remover; }
