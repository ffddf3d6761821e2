// The checksums of blocks and log records, chosen by what the processor has.
//
// RocksDB chooses them when it is compiled, for the processor it is compiled for. Nagi's binary runs on
// any x86-64-v2, so both forms are in it; the test of a bit costs less than the call.
#include <cstddef>
#include <cstdint>

#include "rocksdb/rocksdb_namespace.h"

namespace ROCKSDB_NAMESPACE::crc32c {
uint32_t ExtendPortable(uint32_t crc, const char* data, size_t size);
uint32_t ExtendPclmul(uint32_t crc, const char* data, size_t size);

uint32_t Extend(uint32_t crc, const char* data, size_t size) {
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2")
             ? ExtendPclmul(crc, data, size)
             : ExtendPortable(crc, data, size);
}
}  // namespace ROCKSDB_NAMESPACE::crc32c

extern "C" {
uint64_t ROCKSDB_PORTABLE_XXH3_64bits(const void* data, size_t size);
uint64_t ROCKSDB_AVX2_XXH3_64bits(const void* data, size_t size);

uint64_t ROCKSDB_XXH3_64bits(const void* data, size_t size) {
  return __builtin_cpu_supports("avx2") ? ROCKSDB_AVX2_XXH3_64bits(data, size)
                                        : ROCKSDB_PORTABLE_XXH3_64bits(data, size);
}
}
