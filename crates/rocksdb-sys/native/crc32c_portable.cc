// CRC-32C for any processor of the build's baseline; `dispatch.cc` chooses.
#define Extend ExtendPortable
#include "util/crc32c.cc"
