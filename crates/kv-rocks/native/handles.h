// What the handles of RocksDB's C interface are, as its own c.cc has them.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/options.h>
#include <rocksdb/rate_limiter.h>

#include <memory>

struct rocksdb_cache_t {
  std::shared_ptr<rocksdb::Cache> rep;
};
struct rocksdb_options_t {
  rocksdb::Options rep;
};
struct rocksdb_ratelimiter_t {
  std::shared_ptr<rocksdb::RateLimiter> rep;
};
