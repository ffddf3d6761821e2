// Encrypted files: a file system between RocksDB and the operating system (src/encrypted/mod.rs explains the whole).
//
//   file   header of 4096 bytes, with the file's own key | content, encrypted in counter mode
//
// RocksDB sees the content only: offsets and sizes are without the header. It is a multiple of every sector size, so
// what is aligned for direct I/O stays aligned.
//
// The same bytes of a key stream must never encrypt two contents. So:
//
//   - each file has a key of its own, also a log that RocksDB would write over an older one;
//   - files are appended to, and the position of the key stream only grows, also after a failed write;
//   - the last, partial page of a direct write is encrypted once and kept: it is written again with more behind it,
//     and what fills it up meanwhile is not encrypted;
//   - files are not opened again for writing; they can be cut.
//
// A log of which a crash has left no more than the header is empty: the header is on disk before anything is written
// behind it. Every other file needs its header.

#include "encrypted.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// Functions of src/encrypted/ffi.rs. Those that return a cipher return null and a text, which ends with a zero byte,
// if there is none.
extern "C" {
const void* nagi_cipher_new(const void* keys, char* header, char* text, size_t text_length);
const void* nagi_cipher_open(const void* keys, const char* header, size_t length, char* text, size_t text_length);
void nagi_cipher_apply(const void* cipher, uint64_t offset, char* bytes, size_t length);
void nagi_cipher_copy(const void* cipher, uint64_t offset, const char* from, char* to, size_t length);
void nagi_cipher_free(const void* cipher);
void nagi_keys_free(const void* keys);
}

namespace nagi {

using rocksdb::Env;
using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSReadRequest;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

// `HEADER_BYTES` of the crate nagi-encryption.
constexpr size_t kHeader = 4096;
// The unit of direct I/O.
constexpr size_t kPage = 4096;
// What is encrypted at once, and with direct I/O written at once.
constexpr size_t kCachedPiece = 64 << 10;
constexpr size_t kDirectPiece = 1 << 20;
constexpr size_t kTextMax = 256;

struct FreePages {
  void operator()(char* p) const { std::free(p); }
};
using Pages = std::unique_ptr<char, FreePages>;

Pages NewPages(size_t bytes) { return Pages(static_cast<char*>(std::aligned_alloc(kPage, bytes))); }

struct FreeCipher {
  void operator()(const void* cipher) const { nagi_cipher_free(cipher); }
};
using Cipher = std::unique_ptr<const void, FreeCipher>;

bool EndsWith(const std::string& name, const char* end) {
  const size_t length = std::strlen(end);
  return name.size() >= length && name.compare(name.size() - length, length, end) == 0;
}

// Decrypts what was read. Bytes that are not in `scratch` belong to the file system, and are copied.
void Decrypt(const Cipher& cipher, uint64_t offset, Slice* result, char* scratch) {
  if (result->empty()) return;
  if (result->data() == scratch) {
    nagi_cipher_apply(cipher.get(), offset, scratch, result->size());
  } else {
    nagi_cipher_copy(cipher.get(), offset, result->data(), scratch, result->size());
  }
  *result = Slice(scratch, result->size());
}

class EncryptedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  explicit EncryptedFile(std::unique_ptr<FSWritableFile>&& below)
      : FSWritableFileOwnerWrapper(std::move(below)),
        direct_(target()->use_direct_io()),
        capacity_(direct_ ? kDirectPiece : kCachedPiece) {}

  // Makes the key, and writes the header.
  IOStatus Begin(const SharedKeys& keys, const IOOptions& options, IODebugContext* context) {
    buffer_ = NewPages(capacity_);
    if (buffer_ == nullptr) return IOStatus::IOError("no memory for an encrypted file");
    char text[kTextMax];
    cipher_.reset(nagi_cipher_new(keys.get(), buffer_.get(), text, sizeof text));
    if (cipher_ == nullptr) return IOStatus::IOError(text);
    filled_ = kHeader;
    changed_ = true;
    return direct_ ? IOStatus::OK() : Pass(options, context);
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    const char* from = data.data();
    size_t left = data.size();
    while (left > 0) {
      const size_t n = std::min(left, capacity_ - filled_);
      nagi_cipher_copy(cipher_.get(), size_, from, buffer_.get() + filled_, n);
      size_ += n;
      filled_ += n;
      changed_ = true;
      from += n;
      left -= n;
      if (direct_ && filled_ < capacity_) break;
      IOStatus status = Pass(options, context);
      if (!status.ok()) return status;
    }
    return IOStatus::OK();
  }
  // The checksum is one of the content.
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is appended to at its end");
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, const rocksdb::DataVerificationInfo&,
                            IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is appended to at its end");
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return size == size_ ? IOStatus::OK() : IOStatus::NotSupported("an encrypted file is only appended to");
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* context) override {
    return direct_ ? IOStatus::OK() : target()->Flush(options, context);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = direct_ ? Pass(options, context) : IOStatus::OK();
    return status.ok() ? target()->Sync(options, context) : status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = direct_ ? Pass(options, context) : IOStatus::OK();
    return status.ok() ? target()->Fsync(options, context) : status;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = direct_ ? Pass(options, context) : IOStatus::OK();
    if (status.ok() && direct_ && filled_ > 0) {
      status = target()->Truncate(kHeader + size_, options, context);
      if (status.ok()) status = target()->Fsync(options, context);
    }
    IOStatus closed = target()->Close(options, context);
    return status.ok() ? closed : status;
  }

  // RocksDB needs no aligned buffers for this file, which has its own.
  bool use_direct_io() const override { return false; }
  bool IsSyncThreadSafe() const override { return !direct_ && target()->IsSyncThreadSafe(); }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }
  void PrepareWrite(size_t offset, size_t length, const IOOptions& options, IODebugContext* context) override {
    target()->PrepareWrite(offset + kHeader, length, options, context);
  }
  IOStatus Allocate(uint64_t offset, uint64_t length, const IOOptions& options, IODebugContext* context) override {
    return target()->Allocate(offset + kHeader, length, options, context);
  }
  IOStatus RangeSync(uint64_t offset, uint64_t length, const IOOptions& options, IODebugContext* context) override {
    return direct_ ? IOStatus::OK() : target()->RangeSync(offset + kHeader, length, options, context);
  }
  IOStatus InvalidateCache(size_t offset, size_t length) override {
    return target()->InvalidateCache(length == 0 ? offset : offset + kHeader, length);
  }

 private:
  // Gives the buffer to the file below. Of a direct write the last, partial page stays in the buffer; it is written
  // with zeros behind it.
  IOStatus Pass(const IOOptions& options, IODebugContext* context) {
    if (!changed_) return IOStatus::OK();
    if (!direct_) {
      changed_ = false;
      const Slice bytes(buffer_.get(), std::exchange(filled_, 0));
      return target()->Append(bytes, options, context);
    }
    const size_t whole = filled_ / kPage * kPage;
    const size_t rest = filled_ - whole;
    size_t bytes = whole;
    if (rest > 0) {
      std::memset(buffer_.get() + filled_, 0, kPage - rest);
      bytes += kPage;
    }
    IOStatus status = target()->PositionedAppend(Slice(buffer_.get(), bytes), passed_, options, context);
    if (!status.ok()) return status;
    std::memmove(buffer_.get(), buffer_.get() + whole, rest);
    passed_ += whole;
    filled_ = rest;
    changed_ = false;
    return status;
  }

  Cipher cipher_;
  const bool direct_;
  const size_t capacity_;
  Pages buffer_;
  size_t filled_ = 0;
  // The buffer has something that was not passed on.
  bool changed_ = false;
  // Of the content.
  uint64_t size_ = 0;
  // Where the buffer belongs in the file.
  uint64_t passed_ = 0;
};

class EncryptedReads final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  EncryptedReads(std::unique_ptr<FSRandomAccessFile>&& below, Cipher&& cipher)
      : FSRandomAccessFileOwnerWrapper(std::move(below)), cipher_(std::move(cipher)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* context) const override {
    IOStatus status = target()->Read(offset + kHeader, n, options, result, scratch, context);
    if (status.ok()) Decrypt(cipher_, offset, result, scratch);
    return status;
  }
  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* context) override {
    for (size_t i = 0; i < count; ++i) requests[i].offset += kHeader;
    IOStatus status = target()->MultiRead(requests, count, options, context);
    for (size_t i = 0; i < count; ++i) {
      FSReadRequest& r = requests[i];
      r.offset -= kHeader;
      if (status.ok() && r.status.ok()) Decrypt(cipher_, r.offset, &r.result, r.scratch);
    }
    return status;
  }
  // These call `Read`.
  IOStatus ReadAsync(FSReadRequest& request, const IOOptions& options,
                     std::function<void(FSReadRequest&, void*)> done, void* argument, void** handle,
                     rocksdb::IOHandleDeleter* remove, IODebugContext* context) override {
    return FSRandomAccessFile::ReadAsync(request, options, std::move(done), argument, handle, remove, context);
  }
  bool SubmitReadAsync(FSReadRequest& request, const IOOptions& options, std::function<void(FSReadRequest&)> done,
                       IODebugContext* context) override {
    return FSRandomAccessFile::SubmitReadAsync(request, options, std::move(done), context);
  }
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options, IODebugContext* context) override {
    return target()->Prefetch(offset + kHeader, n, options, context);
  }
  IOStatus InvalidateCache(size_t offset, size_t length) override {
    return target()->InvalidateCache(length == 0 ? offset : offset + kHeader, length);
  }
  IOStatus GetFileSize(uint64_t* size) override {
    IOStatus status = target()->GetFileSize(size);
    if (status.ok()) *size -= std::min<uint64_t>(*size, kHeader);
    return status;
  }

 private:
  const Cipher cipher_;
};

class EncryptedStream final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  // `cipher` is null for a file without content.
  EncryptedStream(std::unique_ptr<FSSequentialFile>&& below, Cipher&& cipher)
      : FSSequentialFileOwnerWrapper(std::move(below)), cipher_(std::move(cipher)) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* context) override {
    IOStatus status = target()->Read(n, options, result, scratch, context);
    if (!status.ok()) return status;
    return Decrypted(std::exchange(position_, position_ + result->size()), result, scratch);
  }
  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                          IODebugContext* context) override {
    IOStatus status = target()->PositionedRead(offset + kHeader, n, options, result, scratch, context);
    return status.ok() ? Decrypted(offset, result, scratch) : status;
  }
  IOStatus Skip(uint64_t n) override {
    IOStatus status = target()->Skip(n);
    if (status.ok()) position_ += n;
    return status;
  }
  IOStatus InvalidateCache(size_t offset, size_t length) override {
    return target()->InvalidateCache(length == 0 ? offset : offset + kHeader, length);
  }

 private:
  IOStatus Decrypted(uint64_t offset, Slice* result, char* scratch) {
    if (cipher_ == nullptr && !result->empty()) return IOStatus::IOError("a file without content has grown");
    Decrypt(cipher_, offset, result, scratch);
    return IOStatus::OK();
  }

  const Cipher cipher_;
  uint64_t position_ = 0;
};

// A file that exists: it can be synced and cut, which is what RocksDB opens it for.
class ReopenedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;

  IOStatus Append(const Slice&, const IOOptions&, IODebugContext*) override { return Refused(); }
  IOStatus Append(const Slice&, const IOOptions&, const rocksdb::DataVerificationInfo&, IODebugContext*) override {
    return Refused();
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override { return Refused(); }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, const rocksdb::DataVerificationInfo&,
                            IODebugContext*) override {
    return Refused();
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* context) override {
    return target()->Truncate(size + kHeader, options, context);
  }
  uint64_t GetFileSize(const IOOptions& options, IODebugContext* context) override {
    const uint64_t size = target()->GetFileSize(options, context);
    return size - std::min<uint64_t>(size, kHeader);
  }

 private:
  static IOStatus Refused() { return IOStatus::NotSupported("an existing encrypted file is not appended to"); }
};

class EncryptedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  EncryptedFileSystem(const std::shared_ptr<FileSystem>& below, const SharedKeys& keys)
      : FileSystemWrapper(below), keys_(keys) {}

  const char* Name() const override { return "NagiEncryptedFileSystem"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    IOStatus status = target()->NewWritableFile(name, options, result, context);
    if (status.ok()) status = Encrypt(keys_, options, result, context);
    // See the top of the file.
    if (status.ok() && IsLog(name)) status = (*result)->Sync(options.io_options, context);
    if (!status.ok()) result->reset();
    return status;
  }
  IOStatus ReuseWritableFile(const std::string& name, const std::string& old, const FileOptions& options,
                             std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    IOStatus status = target()->DeleteFile(old, options.io_options, context);
    return status.ok() ? NewWritableFile(name, options, result, context) : status;
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    IOStatus status = target()->ReopenWritableFile(name, options, result, context);
    if (status.ok()) result->reset(new ReopenedFile(std::move(*result)));
    return status;
  }
  IOStatus NewRandomRWFile(const std::string&, const FileOptions&, std::unique_ptr<rocksdb::FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not written in place");
  }
  IOStatus NewMemoryMappedFileBuffer(const std::string&,
                                     std::unique_ptr<rocksdb::MemoryMappedFileBuffer>*) override {
    return IOStatus::NotSupported("an encrypted file cannot be mapped");
  }

  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext* context) override {
    IOStatus status = target()->NewRandomAccessFile(name, options, result, context);
    if (!status.ok()) return status;
    Pages page = NewPages(kHeader);
    if (page == nullptr) return IOStatus::IOError("no memory for a header");
    Slice header;
    status = (*result)->Read(0, kHeader, options.io_options, &header, page.get(), context);
    // A header that the disk cannot read is damage of this file, and no reason to stop writing others.
    if (!status.ok()) status = IOStatus::Corruption(name + ": " + status.ToString());
    Cipher cipher;
    if (status.ok()) status = Open(name, header, &cipher);
    if (status.ok()) {
      result->reset(new EncryptedReads(std::move(*result), std::move(cipher)));
    } else {
      result->reset();
    }
    return status;
  }
  IOStatus NewSequentialFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* result, IODebugContext* context) override {
    uint64_t size = kHeader + 1;
    IOStatus status = target()->NewSequentialFile(name, options, result, context);
    if (status.ok() && IsLog(name)) status = target()->GetFileSize(name, options.io_options, &size, context);
    Pages page = NewPages(kHeader);
    if (status.ok() && page == nullptr) status = IOStatus::IOError("no memory for a header");
    Slice header;
    if (status.ok()) status = ReadHeader(options, result->get(), &header, page.get(), context);
    Cipher cipher;
    if (status.ok() && size > kHeader) status = Open(name, header, &cipher);
    if (status.ok()) {
      result->reset(new EncryptedStream(std::move(*result), std::move(cipher)));
    } else {
      result->reset();
    }
    return status;
  }

  // RocksDB's messages name keys.
  IOStatus NewLogger(const std::string& name, const IOOptions& options, std::shared_ptr<rocksdb::Logger>* result,
                     IODebugContext* context) override {
    return FileSystem::NewLogger(name, options, result, context);
  }
  IOStatus Truncate(const std::string& name, size_t size, const IOOptions& options,
                    IODebugContext* context) override {
    return target()->Truncate(name, size + kHeader, options, context);
  }
  IOStatus GetFileSize(const std::string& name, const IOOptions& options, uint64_t* size,
                       IODebugContext* context) override {
    IOStatus status = target()->GetFileSize(name, options, size, context);
    if (status.ok()) *size -= std::min<uint64_t>(*size, kHeader);
    return status;
  }
  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<Env::FileAttributes>* result, IODebugContext* context) override {
    IOStatus status = target()->GetChildrenFileAttributes(dir, options, result, context);
    if (status.ok()) {
      for (auto& file : *result) file.size_bytes -= std::min<uint64_t>(file.size_bytes, kHeader);
    }
    return status;
  }

 private:
  static bool IsLog(const std::string& name) { return EndsWith(name, ".log"); }

  // Reads up to a header's bytes; a read may return less than it could.
  static IOStatus ReadHeader(const FileOptions& options, FSSequentialFile* file, Slice* header, char* page,
                             IODebugContext* context) {
    if (file->use_direct_io()) return file->PositionedRead(0, kHeader, options.io_options, header, page, context);
    size_t done = 0;
    while (done < kHeader) {
      Slice part;
      IOStatus status = file->Read(kHeader - done, options.io_options, &part, page + done, context);
      if (!status.ok()) return status;
      if (part.empty()) break;
      if (part.data() != page + done) std::memcpy(page + done, part.data(), part.size());
      done += part.size();
    }
    *header = Slice(page, done);
    return IOStatus::OK();
  }

  IOStatus Open(const std::string& name, const Slice& header, Cipher* cipher) const {
    char text[kTextMax];
    cipher->reset(nagi_cipher_open(keys_.get(), header.data(), header.size(), text, sizeof text));
    // src/damage.rs finds the name.
    return *cipher == nullptr ? IOStatus::Corruption(name + ": " + text) : IOStatus::OK();
  }

  const SharedKeys keys_;
};

}  // namespace

SharedKeys TakeKeys(const void* keys) {
  return keys == nullptr ? nullptr : SharedKeys(keys, nagi_keys_free);
}

IOStatus Encrypt(const SharedKeys& keys, const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                 IODebugContext* context) {
  auto encrypted = std::make_unique<EncryptedFile>(std::move(*file));
  IOStatus status = encrypted->Begin(keys, options.io_options, context);
  *file = std::move(encrypted);
  return status;
}

std::shared_ptr<FileSystem> EncryptedFiles(const std::shared_ptr<FileSystem>& below, const SharedKeys& keys) {
  return std::make_shared<EncryptedFileSystem>(below, keys);
}

}  // namespace nagi
