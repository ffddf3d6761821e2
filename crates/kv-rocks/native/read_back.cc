// Read-ahead for reads that move backward through a file.
//
// RocksDB reads ahead only for forward iterators. With the page cache that does not matter, but with direct reads
// each block of a reverse scan would be a separate request to the disk.
//
//   read of [low, high)  --ends where the last read began-->  a run  --third read of it-->  a stream
//   stream: one buffer that ends where the read ends and begins further down; later reads are copied
//   from it. Its size doubles with each fill, as in forward read-ahead.
//
// Iterators do not announce what they will read, so runs are recognized by offsets, as a disk would do. The number
// of runs and buffers is fixed, whatever the number of files and clients: memory stays under 4 MiB. Random reads
// pay for one short lock and a search of 64 entries, far less than for the disk request that follows.
//
// The layer also handles pages that the disk cannot read. RocksDB would treat such an error in a compaction as
// fatal. So the unreadable pages of a table file are replaced by a pattern: the checksum of their block then
// reports damage, and only that block is lost. Neighbouring blocks that are read in the same large request are read
// as usual. The engine is notified of the place.
//
// The layer tells the engine where reads of the disk and writes of table files land.
//
// A large read waits for memory: RocksDB holds the buffer of the file and the block beside the cache. The buffer has
// been allocated by then, so its pages are returned to the system before a wait. Reads of compactions are counted in
// their own way.

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// src/db/native/ffi.rs
extern "C" void nagi_unreadable(const char* file, size_t file_length, uint64_t offset, const char* text,
                                size_t text_length);

// src/db/native/ffi.rs. Returns zero if there is no memory for a read; waits for it if `waits`.
extern "C" unsigned char nagi_read_large(size_t bytes, unsigned char waits);

// src/db/native/ffi.rs. Cheap while nobody has asked.
extern "C" void nagi_file_used(const char* file, size_t file_length, uint64_t offset, size_t bytes, int is_write);

#include "encrypted.h"
#include "handles.h"

namespace {

using namespace rocksdb;

constexpr size_t kAlignment = 4096;
constexpr size_t kWindowMin = 64 << 10;
constexpr size_t kWindowMax = 256 << 10;
// Larger reads need no read-ahead.
constexpr size_t kReadMax = 32 << 10;
// Blocks between two reads may come from the cache.
constexpr uint64_t kGapMax = 32 << 10;
constexpr size_t kRuns = 64;
constexpr size_t kStreams = 16;
constexpr int kReadsOfARun = 3;
// With more unreadable pages in one request, the whole request fails.
constexpr int kUnreadableMax = 64;
// Reads of more than this wait for memory: their buffers are not part of the cache.
constexpr size_t kLarge = 256 << 10;
// The pattern for a page that cannot be read.
constexpr char kPattern = '\x5a';

struct Free {
  void operator()(char* p) const { std::free(p); }
};

// The position of the last read of a reader.
struct Run {
  const void* file = nullptr;
  uint64_t low = 0;
  int reads = 0;
  uint64_t used = 0;
};

// Bytes [low, high) of a file.
struct Stream {
  const void* file = nullptr;
  uint64_t low = 0;
  uint64_t high = 0;
  size_t window = 0;
  uint64_t used = 0;
  // True while a reader fills it, outside the lock.
  bool busy = false;
  std::unique_ptr<char, Free> bytes;
};

bool TouchesFromBelow(uint64_t low, uint64_t offset, size_t n) {
  return offset < low && offset + n <= low + kReadMax && offset + n + kGapMax >= low;
}

class Streams {
 public:
  // Copies the bytes if a stream has them; otherwise returns the stream to fill, if any.
  bool Find(const void* file, uint64_t offset, size_t n, char* out, Stream** fill) {
    std::lock_guard<std::mutex> guard(lock_);
    ++clock_;
    *fill = nullptr;
    for (Stream& s : streams_) {
      if (s.file != file || s.busy) continue;
      if (offset >= s.low && offset + n <= s.high) {
        std::memcpy(out, s.bytes.get() + (offset - s.low), n);
        s.used = clock_;
        return true;
      }
      if (TouchesFromBelow(s.low, offset, n)) {
        s.window = std::min(s.window * 2, kWindowMax);
        *fill = Take(&s, file);
        return false;
      }
    }
    Run* oldest = &runs_[0];
    for (Run& r : runs_) {
      if (r.file == file && TouchesFromBelow(r.low, offset, n)) {
        r.low = offset;
        r.used = clock_;
        if (++r.reads >= kReadsOfARun) {
          r = Run();
          *fill = Begin(file);
        }
        return false;
      }
      if (r.used < oldest->used) oldest = &r;
    }
    *oldest = Run{file, offset, 1, clock_};
    return false;
  }

  // Called after the stream was filled with [low, high); the range is empty if the read failed.
  void Filled(Stream* s, uint64_t low, uint64_t high) {
    std::lock_guard<std::mutex> guard(lock_);
    s->low = low;
    s->high = high;
    s->busy = false;
    if (low == high) s->file = nullptr;
  }

  // The file is closed; another one may soon have its address.
  void Forget(const void* file) {
    std::lock_guard<std::mutex> guard(lock_);
    for (Stream& s : streams_) {
      if (s.file == file) s.file = nullptr;
    }
    for (Run& r : runs_) {
      if (r.file == file) r = Run();
    }
  }

 private:
  Stream* Begin(const void* file) {
    Stream* oldest = nullptr;
    for (Stream& s : streams_) {
      if (!s.busy && (oldest == nullptr || s.used < oldest->used)) oldest = &s;
    }
    if (oldest == nullptr) return nullptr;
    oldest->window = kWindowMin;
    return Take(oldest, file);
  }

  Stream* Take(Stream* s, const void* file) {
    if (s->bytes == nullptr) {
      s->bytes.reset(static_cast<char*>(std::aligned_alloc(kAlignment, kWindowMax)));
      if (s->bytes == nullptr) return nullptr;
    }
    s->file = file;
    s->low = s->high = 0;
    s->used = clock_;
    s->busy = true;
    return s;
  }

  std::mutex lock_;
  uint64_t clock_ = 0;
  std::array<Run, kRuns> runs_;
  std::array<Stream, kStreams> streams_;
};

Streams& streams() {
  static Streams* all = new Streams();
  return *all;
}

// Injected bad sectors, for tests. Files are identified by device and inode, so that their other names in the data
// directory are included; it is not used elsewhere, because inode numbers may be reused.
class Faults {
 public:
  void Add(const std::string& name, const struct stat& file, uint64_t from, uint64_t to) {
    const size_t end = name.rfind('/', name.rfind('/') - 1);
    std::lock_guard<std::mutex> guard(lock_);
    places_.push_back({name.substr(0, end + 1), file.st_dev, file.st_ino, from, to});
    any_.store(true);
  }

  bool Hit(const std::string& name, uint64_t offset, size_t n) {
    if (!any_.load(std::memory_order_relaxed)) return false;
    struct stat file;
    if (stat(name.c_str(), &file) != 0) return false;
    std::lock_guard<std::mutex> guard(lock_);
    return std::any_of(places_.begin(), places_.end(), [&](const Place& p) {
      return name.compare(0, p.folder.size(), p.folder) == 0 && p.device == file.st_dev &&
             p.inode == file.st_ino && offset < p.to && offset + n > p.from;
    });
  }

 private:
  struct Place {
    std::string folder;
    dev_t device;
    ino_t inode;
    uint64_t from, to;
  };
  std::mutex lock_;
  std::atomic<bool> any_{false};
  std::vector<Place> places_;
};

Faults& faults() {
  static Faults* all = new Faults();
  return *all;
}

// Returns true for the errors of a disk that cannot read a page.
bool IsUnreadable(const Status& status) {
  static const std::array<std::string, 4> texts = {std::strerror(EIO), std::strerror(ENODATA),
                                                   std::strerror(EREMOTEIO), std::strerror(EILSEQ)};
  if (!status.IsIOError() || status.getState() == nullptr) return false;
  const std::string said = status.getState();
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return said.find(text) != std::string::npos; });
}

class ReadBackFile : public FSRandomAccessFileOwnerWrapper {
 public:
  ReadBackFile(const std::string& name, bool direct, std::unique_ptr<FSRandomAccessFile>&& file)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), name_(name), direct_(direct) {}

  ~ReadBackFile() override {
    if (direct_) streams().Forget(this);
  }

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    if (n > kLarge && !MayRead(n, [&] { Empty(scratch, n); })) return NoMemory();
    IOStatus status = ReadAhead(offset, n, options, result, scratch, dbg);
    if (status.ok() || !IsUnreadable(status)) return status;
    return Rescue(offset, n, options, result, scratch, dbg, status);
  }

  IOStatus MultiRead(FSReadRequest* reqs, size_t count, const IOOptions& options,
                     IODebugContext* dbg) override {
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += reqs[i].len;
    const auto empty = [&] {
      for (size_t i = 0; i < count; ++i) Empty(reqs[i].scratch, reqs[i].len);
    };
    if (bytes > kLarge && !MayRead(bytes, empty)) {
      for (size_t i = 0; i < count; ++i) reqs[i].status = NoMemory();
      return NoMemory();
    }
    IOStatus status = target()->MultiRead(reqs, count, options, dbg);
    for (size_t i = 0; i < count; ++i) nagi_file_used(name_.data(), name_.size(), reqs[i].offset, reqs[i].len, 0);
    for (size_t i = 0; i < count; ++i) {
      FSReadRequest& r = reqs[i];
      if (r.status.ok() && faults().Hit(name_, r.offset, r.len)) r.status = Error(r.offset);
      if (r.scratch == nullptr || !IsUnreadable(r.status)) continue;
      r.status = Rescue(r.offset, r.len, options, &r.result, r.scratch, dbg, r.status);
    }
    return IsUnreadable(status) ? IOStatus::OK() : status;
  }

 private:
  // Waits for the memory of a large read. The buffers of the read exist already; `empty` releases their pages before a
  // wait.
  template <class F>
  static bool MayRead(size_t bytes, const F& empty) {
    if (nagi_read_large(bytes, 0) != 0) return true;
    empty();
    return nagi_read_large(bytes, 1) != 0;
  }

  // Returns the whole pages of a buffer, whose content is not needed, to the system. They come back as zeros.
  static void Empty(char* scratch, size_t n) {
    if (scratch == nullptr || n < kLarge) return;
    const auto begin = (reinterpret_cast<uintptr_t>(scratch) + kAlignment - 1) / kAlignment * kAlignment;
    const auto end = (reinterpret_cast<uintptr_t>(scratch) + n) / kAlignment * kAlignment;
    // A failure leaves the pages where they are.
    if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }

  // src/db/ffi.rs recognizes the text.
  static IOStatus NoMemory() { return IOStatus::Aborted("no memory for a large read"); }

  IOStatus Error(uint64_t offset) const {
    return IOStatus::IOError("While pread offset " + std::to_string(offset) + ": " + name_, std::strerror(EIO));
  }

  IOStatus Get(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
               IODebugContext* dbg) const {
    if (faults().Hit(name_, offset, n)) return Error(offset);
    nagi_file_used(name_.data(), name_.size(), offset, n, 0);
    return target()->Read(offset, n, options, result, scratch, dbg);
  }

  IOStatus ReadAhead(uint64_t offset, size_t n, const IOOptions& options, Slice* result,
                     char* scratch, IODebugContext* dbg) const {
    if (!direct_ || n == 0 || n > kReadMax || scratch == nullptr) {
      return Get(offset, n, options, result, scratch, dbg);
    }
    Stream* fill = nullptr;
    if (streams().Find(this, offset, n, scratch, &fill)) {
      *result = Slice(scratch, n);
      return IOStatus::OK();
    }
    if (fill == nullptr) return Get(offset, n, options, result, scratch, dbg);
    const uint64_t high = offset + n;
    // Rounded up, so that the total is never more than the window. `offset` is aligned, or reads are not direct, so
    // the range contains it: the window is at least as large as any read here.
    const uint64_t wanted = high > fill->window ? high - fill->window : 0;
    const uint64_t begin = (wanted + kAlignment - 1) / kAlignment * kAlignment;
    Slice read;
    IOStatus status = Get(begin, high - begin, options, &read, fill->bytes.get(), dbg);
    const bool good = status.ok() && begin <= offset && read.size() == high - begin;
    if (!good) {
      streams().Filled(fill, 0, 0);
      return Get(offset, n, options, result, scratch, dbg);
    }
    if (read.data() != fill->bytes.get()) {
      std::memcpy(fill->bytes.get(), read.data(), read.size());
    }
    std::memcpy(scratch, fill->bytes.get() + (offset - begin), n);
    *result = Slice(scratch, n);
    streams().Filled(fill, begin, high);
    return IOStatus::OK();
  }

  // Reads the readable pages of a failed request, page by page. Only for table files, because all of their content
  // has checksums that RocksDB verifies.
  IOStatus Rescue(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                  IODebugContext* dbg, const IOStatus& failed) const {
    static const std::string table = ".sst";
    const bool checked = name_.size() > table.size() &&
                         name_.compare(name_.size() - table.size(), table.size(), table) == 0;
    size_t done = 0;
    int unreadable = 0;
    while (checked && scratch != nullptr && done < n && unreadable <= kUnreadableMax) {
      const uint64_t at = offset + done;
      const size_t wanted = std::min<size_t>(kAlignment - at % kAlignment, n - done);
      Slice read;
      const IOStatus status = Get(at, wanted, options, &read, scratch + done, dbg);
      if (status.ok()) {
        if (read.data() != scratch + done) std::memmove(scratch + done, read.data(), read.size());
        done += read.size();
        if (read.size() < wanted) break;  // the end of the file
        continue;
      }
      if (!IsUnreadable(status)) return status;
      ++unreadable;
      Tell(at, status);
      std::memset(scratch + done, kPattern, wanted);
      done += wanted;
    }
    if (!checked || scratch == nullptr || unreadable > kUnreadableMax) {
      Tell(offset, failed);
      *result = Slice();
      return IOStatus::Corruption(std::string(failed.getState()) + " in " + name_,
                                  "offset " + std::to_string(offset) + " size " + std::to_string(n));
    }
    *result = Slice(scratch, done);
    return IOStatus::OK();
  }

  void Tell(uint64_t offset, const IOStatus& status) const {
    const std::string text = status.ToString();
    nagi_unreadable(name_.data(), name_.size(), offset, text.data(), text.size());
  }

  const std::string name_;
  const bool direct_;
};

// A table file that is being written.
class UsedFile : public FSWritableFileOwnerWrapper {
 public:
  UsedFile(const std::string& name, std::unique_ptr<FSWritableFile>&& file)
      : FSWritableFileOwnerWrapper(std::move(file)), name_(name) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    Appended(data.size());
    return target()->Append(data, options, dbg);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo& info,
                  IODebugContext* dbg) override {
    Appended(data.size());
    return target()->Append(data, options, info, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* dbg) override {
    nagi_file_used(name_.data(), name_.size(), offset, data.size(), 1);
    return target()->PositionedAppend(data, offset, options, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const DataVerificationInfo& info, IODebugContext* dbg) override {
    nagi_file_used(name_.data(), name_.size(), offset, data.size(), 1);
    return target()->PositionedAppend(data, offset, options, info, dbg);
  }

 private:
  void Appended(size_t bytes) {
    nagi_file_used(name_.data(), name_.size(), size_, bytes, 1);
    size_ += bytes;
  }

  const std::string name_;
  uint64_t size_ = 0;
};

class ReadBackFileSystem : public FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char* Name() const override { return "NagiReadBack"; }

  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result,
                               IODebugContext* dbg) override {
    IOStatus status = target()->NewRandomAccessFile(name, options, result, dbg);
    if (status.ok()) {
      result->reset(new ReadBackFile(name, options.use_direct_reads, std::move(*result)));
    }
    return status;
  }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options, std::unique_ptr<FSWritableFile>* result,
                           IODebugContext* dbg) override {
    IOStatus status = target()->NewWritableFile(name, options, result, dbg);
    if (status.ok() && name.ends_with(".sst")) result->reset(new UsedFile(name, std::move(*result)));
    return status;
  }
};

}  // namespace

extern "C" {

// Makes the database read its files through this layer, which lives as long as the process.
void nagi_options_read_back(rocksdb_options_t* options) noexcept {
  static Env* env =
      NewCompositeEnv(std::make_shared<ReadBackFileSystem>(FileSystem::Default())).release();
  options->rep.env = env;
}

// Creates an environment that does so, and encrypts all files below that. A reference to `keys` is taken over. It is
// freed with `nagi_encrypted_env_destroy`, after everything that uses it.
void* nagi_encrypted_env_create(const void* keys) noexcept {
  auto encrypted = nagi::EncryptedFiles(FileSystem::Default(), nagi::TakeKeys(keys));
  return NewCompositeEnv(std::make_shared<ReadBackFileSystem>(encrypted)).release();
}

void nagi_encrypted_env_destroy(void* env) noexcept { delete static_cast<Env*>(env); }

// Makes the database use such an environment.
void nagi_options_encrypted(rocksdb_options_t* options, void* env) noexcept {
  options->rep.env = static_cast<Env*>(env);
}

// For tests: makes these bytes of the file unreadable, like a bad sector. Returns zero if the file exists.
int nagi_make_unreadable(const char* name, uint64_t from, uint64_t to) noexcept {
  struct stat file;
  if (stat(name, &file) != 0) return -1;
  faults().Add(name, file, from, to);
  return 0;
}
}
