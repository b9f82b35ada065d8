#include <ragged/c/helpers.h>

#include <algorithm>

#include "c_api_values.hpp"

using namespace ragged::capi;

namespace {

std::span<const std::int64_t> to_lengths(const int64_t* lengths, std::size_t count) {
  if (count > 0) require(lengths, "lengths");
  return {lengths, count};
}

}  // namespace

extern "C" {

int ragged_pack(const ragged_padded* padded, const int64_t* lengths, size_t count,
                const ragged_tensor* packed) {
  return guarded([&] {
    ragged::pack(to_padded(padded, "padded"), to_lengths(lengths, count),
                 to_tensor(packed, "packed"));
  });
}

int ragged_unpack(const ragged_tensor* packed, const int64_t* lengths, size_t count,
                  const ragged_padded* padded) {
  return guarded([&] {
    ragged::unpack(to_tensor(packed, "packed"), to_lengths(lengths, count),
                   to_padded(padded, "padded"));
  });
}

int ragged_merge_by_lse(const ragged_tensor* out_a, const ragged_lse* lse_a,
                        const ragged_tensor* out_b, const ragged_lse* lse_b,
                        const ragged_tensor* out, const ragged_lse* lse) {
  return guarded([&] {
    ragged::merge_by_lse(to_tensor(out_a, "out_a"), to_lse(lse_a, "lse_a"),
                         to_tensor(out_b, "out_b"), to_lse(lse_b, "lse_b"), to_tensor(out, "out"),
                         to_optional_lse(lse, "lse"));
  });
}

int ragged_offsets_from_lengths(const int64_t* lengths, size_t count, int64_t* offsets) {
  return guarded([&] {
    require(offsets, "offsets");
    const std::vector<std::int64_t> result =
        ragged::offsets_from_lengths(to_lengths(lengths, count));
    std::copy(result.begin(), result.end(), offsets);
  });
}

}  // extern "C"
