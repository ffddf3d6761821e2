// XXH3 for any processor of the build's baseline, and all else of xxHash; `dispatch.cc` chooses.
#include "util/xxhash.h"
#undef XXH3_64bits
#define XXH3_64bits ROCKSDB_PORTABLE_XXH3_64bits
#define XXH_IMPLEMENTATION
#include "util/xxhash.h"
