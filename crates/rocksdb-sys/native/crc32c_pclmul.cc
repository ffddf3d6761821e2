// CRC-32C by three streams at once, joined by a carry-less multiplication; `dispatch.cc` chooses.
#define Extend ExtendPclmul
#define Crc32cCombine Crc32cCombinePclmul
#define IsFastCrc32Supported IsFastCrc32SupportedPclmul
#include "util/crc32c.cc"
