// Checks if a table file can be opened: its footer, the list of its blocks, its properties and its index.
//
// Filters and data blocks are not read, so a table with damaged data opens.

#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>

namespace {

rocksdb::Options ReadOnce() {
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

extern "C" int nagi_table_opens(const char* name) noexcept {
  static const rocksdb::Options options = ReadOnce();
  rocksdb::SstFileReader reader(options);
  return reader.Open(name).ok() ? 1 : 0;
}
