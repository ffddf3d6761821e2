// What the latency governor sets that RocksDB's C interface cannot.

#include <rocksdb/rate_limiter.h>

#include <cstdint>
#include <memory>

// As RocksDB's own c.cc has it.
struct rocksdb_ratelimiter_t {
  std::shared_ptr<rocksdb::RateLimiter> rep;
};

extern "C" void nagi_rate_limiter_set(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) noexcept {
  limiter->rep->SetBytesPerSecond(bytes_per_second);
}
