// Reads single table files, outside of a database.

#include <rocksdb/comparator.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/types_util.h>

#include <memory>
#include <string>

#include "handles.h"

namespace {

rocksdb::Options ReadOnce() {
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// `env`: of an encrypted database; null for one that is not.
std::unique_ptr<rocksdb::SstFileReader> NewReader(void* env) {
  static const rocksdb::Options plain = ReadOnce();
  if (env == nullptr) return std::make_unique<rocksdb::SstFileReader>(plain);
  rocksdb::Options options = plain;
  options.env = static_cast<rocksdb::Env*>(env);
  return std::make_unique<rocksdb::SstFileReader>(options);
}

// The number of the version and the type of the entry follow each key.
constexpr size_t kTrailerBytes = 8;

}  // namespace

extern "C" {

// Checks if a table file can be opened: its footer, the list of its blocks, its properties and its index. Filters and
// data blocks are not read, so a table with damaged data opens.
int nagi_table_opens(const char* name, void* env) noexcept {
  return NewReader(env)->Open(name).ok() ? 1 : 0;
}

// The keys of all entries of one table: values, differences and deletions.
struct nagi_table_keys {
  std::unique_ptr<rocksdb::SstFileReader> reader;
  std::unique_ptr<rocksdb::Iterator> entries;
  std::string target;
};

// Returns none if the table cannot be opened. `env` outlives what is returned.
nagi_table_keys* nagi_table_keys_open(const char* name, void* env) noexcept {
  auto reader = NewReader(env);
  if (!reader->Open(name).ok()) {
    return nullptr;
  }
  auto entries = reader->NewTableIterator();
  return new nagi_table_keys{std::move(reader), std::move(entries), {}};
}

// Moves to the first entry at or behind a key, or to the next entry if there is none. Returns 1 and the key, which is
// valid until the next move; 0 behind the last entry; -1 if a block cannot be read.
int nagi_table_keys_move(nagi_table_keys* keys, const char* to, size_t to_length, const char** key,
                         size_t* key_length) noexcept {
  if (to == nullptr) {
    keys->entries->Next();
  } else {
    const rocksdb::Slice user_key(to, to_length);
    if (!rocksdb::GetInternalKeyForSeek(user_key, rocksdb::BytewiseComparator(), &keys->target)
             .ok()) {
      return -1;
    }
    keys->entries->Seek(keys->target);
  }
  if (!keys->entries->Valid()) {
    return keys->entries->status().ok() ? 0 : -1;
  }
  const rocksdb::Slice found = keys->entries->key();
  if (found.size() < kTrailerBytes) {
    return -1;
  }
  *key = found.data();
  *key_length = found.size() - kTrailerBytes;
  return 1;
}

void nagi_table_keys_close(nagi_table_keys* keys) noexcept {
  // The iterator reads from the reader.
  keys->entries.reset();
  delete keys;
}

}  // extern "C"
