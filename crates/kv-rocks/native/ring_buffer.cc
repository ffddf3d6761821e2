// RocksDB's write-ahead log files, redirected to the ring buffer (src/ring_buffer/mod.rs explains why).
//
// A file system that sends writes of `<database>/<number>.log` to the ring buffer and all other calls to the
// operating system. An access to a log file by name first waits until the ring buffer has written its content to
// the file, so that all readers see the same data.

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "encrypted.h"

// Functions of src/ring_buffer/ffi.rs. Each returns 0 or an errno.
extern "C" {
int nagi_ring_create(const void* ring_buffer, uint64_t number);
int nagi_ring_reuse(const void* ring_buffer, uint64_t number, uint64_t old);
int nagi_ring_append(const void* ring_buffer, uint64_t number, const char* data, size_t length);
int nagi_ring_sync(const void* ring_buffer, uint64_t number);
int nagi_ring_close(const void* ring_buffer, uint64_t number);
void nagi_ring_drain(const void* ring_buffer);
// Makes a file descriptor available, or waits a moment.
void nagi_descriptors_give();
}

namespace {

using namespace rocksdb;

IOStatus Status(int code) {
  if (code == 0) return IOStatus::OK();
  if (code == ENOSPC || code == EDQUOT) return IOStatus::NoSpace(std::strerror(code));
  return IOStatus::IOError("write-ahead log", std::strerror(code));
}

// How often opening a file is retried while the table of open files is full.
constexpr int kAttempts = 200;

bool RanOut(const IOStatus& status) {
  if (!status.IsIOError()) return false;
  const std::string text = status.ToString();
  return text.find(std::strerror(EMFILE)) != std::string::npos || text.find(std::strerror(ENFILE)) != std::string::npos;
}

template <class Open>
IOStatus Patiently(const Open& open) {
  IOStatus status = open();
  for (int i = 0; i < kAttempts && RanOut(status); i++) {
    nagi_descriptors_give();
    status = open();
  }
  return status;
}

class RingLog : public FSWritableFile {
 public:
  RingLog(const void* ring_buffer, uint64_t number) : ring_(ring_buffer), number_(number) {}
  ~RingLog() override { CloseOnce(); }

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    int code = nagi_ring_append(ring_, number_, data.data(), data.size());
    if (code == 0) size_ += data.size();
    return Status(code);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return size == size_ ? IOStatus::OK() : IOStatus::NotSupported("the log is only appended to");
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return CloseOnce(); }
  // The content of the ring buffer survives the process.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return Status(nagi_ring_sync(ring_, number_));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    return Sync(options, context);
  }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }
  // The ring buffer's thread allocates ahead and starts writeback; that must not happen in the path of a commit.
  void PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) override {}
  IOStatus Allocate(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  IOStatus CloseOnce() {
    if (closed_) return IOStatus::OK();
    closed_ = true;
    return Status(nagi_ring_close(ring_, number_));
  }

  const void* ring_;
  uint64_t number_;
  uint64_t size_ = 0;
  bool closed_ = false;
};

class RingFileSystem : public FileSystemWrapper {
 public:
  // With keys, what goes to the ring buffer is encrypted.
  RingFileSystem(const std::shared_ptr<FileSystem>& below, const void* ring_buffer, std::string dir,
                 nagi::SharedKeys keys)
      : FileSystemWrapper(below), ring_(ring_buffer), dir_(std::move(dir)), keys_(std::move(keys)) {}

  const char* Name() const override { return "NagiSpoolFileSystem"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& file, std::unique_ptr<FSWritableFile>* result,
                           IODebugContext* context) override {
    uint64_t number = 0;
    if (!IsLog(name, &number)) {
      return Patiently([&] { return FileSystemWrapper::NewWritableFile(name, file, result, context); });
    }
    return Opened(nagi_ring_create(ring_, number), number, file, result, context);
  }
  IOStatus ReuseWritableFile(const std::string& name, const std::string& old_name, const FileOptions& file,
                             std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    uint64_t number = 0, old = 0;
    if (!IsLog(name, &number) || !IsLog(old_name, &old)) {
      return FileSystemWrapper::ReuseWritableFile(name, old_name, file, result, context);
    }
    return Opened(nagi_ring_reuse(ring_, number, old), number, file, result, context);
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& file,
                              std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    Settle(name);
    return Patiently([&] { return FileSystemWrapper::ReopenWritableFile(name, file, result, context); });
  }
  IOStatus NewSequentialFile(const std::string& name, const FileOptions& file,
                             std::unique_ptr<FSSequentialFile>* result, IODebugContext* context) override {
    Settle(name);
    return Patiently([&] { return FileSystemWrapper::NewSequentialFile(name, file, result, context); });
  }
  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& file,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext* context) override {
    Settle(name);
    return Patiently([&] { return FileSystemWrapper::NewRandomAccessFile(name, file, result, context); });
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions& options, std::unique_ptr<FSDirectory>* result,
                        IODebugContext* context) override {
    return Patiently([&] { return FileSystemWrapper::NewDirectory(name, options, result, context); });
  }
  IOStatus FileExists(const std::string& name, const IOOptions& options, IODebugContext* context) override {
    Settle(name);
    return FileSystemWrapper::FileExists(name, options, context);
  }
  IOStatus GetChildren(const std::string& dir, const IOOptions& options, std::vector<std::string>* result,
                       IODebugContext* context) override {
    nagi_ring_drain(ring_);
    return FileSystemWrapper::GetChildren(dir, options, result, context);
  }
  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<Env::FileAttributes>* result, IODebugContext* context) override {
    nagi_ring_drain(ring_);
    return FileSystemWrapper::GetChildrenFileAttributes(dir, options, result, context);
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* context) override {
    Settle(name);
    return FileSystemWrapper::DeleteFile(name, options, context);
  }
  IOStatus Truncate(const std::string& name, size_t size, const IOOptions& options,
                    IODebugContext* context) override {
    Settle(name);
    return FileSystemWrapper::Truncate(name, size, options, context);
  }
  IOStatus GetFileSize(const std::string& name, const IOOptions& options, uint64_t* size,
                       IODebugContext* context) override {
    Settle(name);
    return FileSystemWrapper::GetFileSize(name, options, size, context);
  }
  IOStatus GetFileModificationTime(const std::string& name, const IOOptions& options, uint64_t* time,
                                   IODebugContext* context) override {
    Settle(name);
    return FileSystemWrapper::GetFileModificationTime(name, options, time, context);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* context) override {
    Settle(from);
    Settle(to);
    return FileSystemWrapper::RenameFile(from, to, options, context);
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* context) override {
    Settle(from);
    return FileSystemWrapper::LinkFile(from, to, options, context);
  }

 private:
  IOStatus Opened(int code, uint64_t number, const FileOptions& file, std::unique_ptr<FSWritableFile>* result,
                  IODebugContext* context) {
    if (code == 0) *result = std::make_unique<RingLog>(ring_, number);
    if (code != 0 || keys_ == nullptr) return Status(code);
    return nagi::Encrypt(keys_, file, result, context);
  }

  void Settle(const std::string& name) {
    uint64_t number = 0;
    if (IsLog(name, &number)) nagi_ring_drain(ring_);
  }

  // Returns true if the name is that of a log of this database.
  bool IsLog(const std::string& name, uint64_t* number) const {
    constexpr const char* kSuffix = ".log";
    if (name.size() <= dir_.size() + 5 || name.compare(0, dir_.size(), dir_) != 0) return false;
    size_t at = dir_.size();
    if (name[at] != '/') return false;
    while (at < name.size() && name[at] == '/') ++at;
    size_t end = name.size() - 4;
    if (end <= at || end - at > 18 || name.compare(end, 4, kSuffix) != 0) return false;
    uint64_t value = 0;
    for (; at < end; ++at) {
      if (name[at] < '0' || name[at] > '9') return false;
      value = value * 10 + static_cast<uint64_t>(name[at] - '0');
    }
    *number = value;
    return true;
  }

  const void* ring_;
  std::string dir_;
  const nagi::SharedKeys keys_;
};

}  // namespace

extern "C" {

// Creates an environment whose log of the database in `dir` goes to the ring buffer, and sets it in `options`. Must
// be freed with `nagi_ring_env_destroy` after the database is closed. `options` is the rocksdb_options_t of
// RocksDB's C interface: a structure whose only member is `Options`. A reference to `keys` is taken over; null if the
// files are not encrypted.
void* nagi_ring_env_create(void* options, const void* ring_buffer, const char* dir, size_t length,
                           const void* keys) {
  auto* chosen = static_cast<Options*>(options);
  auto files = std::make_shared<RingFileSystem>(chosen->env->GetFileSystem(), ring_buffer,
                                                 std::string(dir, length), nagi::TakeKeys(keys));
  auto env = NewCompositeEnv(files);
  chosen->env = env.get();
  return env.release();
}

void nagi_ring_env_destroy(void* env) { delete static_cast<Env*>(env); }

}
