// The definitions of the handles of RocksDB's C interface, as in its own c.cc.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <memory>

struct rocksdb_t {
  rocksdb::DB* rep;
};
struct rocksdb_column_family_handle_t {
  rocksdb::ColumnFamilyHandle* rep;
};
// With more members behind this one; never created here.
struct rocksdb_readoptions_t {
  rocksdb::ReadOptions rep;
};
struct rocksdb_cache_t {
  std::shared_ptr<rocksdb::Cache> rep;
};
struct rocksdb_iterator_t {
  rocksdb::Iterator* rep;
};
struct rocksdb_options_t {
  rocksdb::Options rep;
};
// With more members behind this one; never created here.
struct rocksdb_block_based_table_options_t {
  rocksdb::BlockBasedTableOptions rep;
};
struct rocksdb_writebatch_t {
  rocksdb::WriteBatch rep;
};
struct rocksdb_ratelimiter_t {
  std::shared_ptr<rocksdb::RateLimiter> rep;
};
