// Encrypted files, for the file systems of this crate. See encrypted.cc.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>

namespace nagi {

// The keys of a data directory; null if its files are not encrypted.
using SharedKeys = std::shared_ptr<const void>;

// Takes over a reference to keys, as src/encrypted/ffi.rs gives it. Null stays null.
SharedKeys TakeKeys(const void* keys);

// Writes the header of an encrypted file to an empty one, and replaces it by one that encrypts what is appended.
rocksdb::IOStatus Encrypt(const SharedKeys& keys, const rocksdb::FileOptions& options,
                          std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* context);

// A file system all of whose files are encrypted, on top of another one.
std::shared_ptr<rocksdb::FileSystem> EncryptedFiles(const std::shared_ptr<rocksdb::FileSystem>& below,
                                                    const SharedKeys& keys);

}  // namespace nagi
