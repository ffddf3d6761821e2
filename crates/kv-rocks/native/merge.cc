// Puts a value together from an older version and the differences since (RocksDB calls them merge operands).
//
// The work is done in Rust (`db/merge`): what differences contain comes from the disk.

#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>
#include <type_traits>

#include "handles.h"

namespace {

struct Bytes {
  const char* data;
  size_t length;
};

static_assert(sizeof(Bytes) == sizeof(rocksdb::Slice) && std::is_standard_layout_v<rocksdb::Slice>,
              "slices are handed over as they are");

}  // namespace

extern "C" {

// Defined in Rust. `older` may have no data. Calls `nagi_string_assign` once with `out`.
void nagi_merge(Bytes older, const Bytes* differences, size_t count, std::string* out) noexcept;

void nagi_string_assign(std::string* string, const char* data, size_t length) noexcept { string->assign(data, length); }

}  // extern "C"

namespace {

class Differences : public rocksdb::MergeOperator {
 public:
  // It never fails: a value that cannot be put together is a value of its own, so that a scan or a compaction gets past
  // it.
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    const Bytes older = in.existing_value == nullptr
                            ? Bytes{nullptr, 0}
                            : Bytes{in.existing_value->data(), in.existing_value->size()};
    nagi_merge(older, reinterpret_cast<const Bytes*>(in.operand_list.data()), in.operand_list.size(), &out->new_value);
    return true;
  }

  const char* Name() const override { return "nagi.Differences.1"; }
};

}  // namespace

extern "C" void nagi_options_merge_differences(rocksdb_options_t* options) noexcept {
  options->rep.merge_operator = std::make_shared<Differences>();
}
