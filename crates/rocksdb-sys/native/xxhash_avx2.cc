// XXH3 in vectors of 256 bits; `dispatch.cc` chooses. Compiled with -mavx2, so it must not hold anything
// that the linker could take for another unit's (an inline function of the standard library).
#define XXH_NAMESPACE ROCKSDB_AVX2_
#define XXH_IMPLEMENTATION
#include "util/xxhash.h"
