#include <ragged/helpers.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "numbers.hpp"

namespace ragged {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void require_equal(std::string_view what, std::int64_t came, std::string_view other,
                   std::int64_t expected) {
  if (came == expected) return;
  refuse(std::string(what) + " is " + std::to_string(came) + "; " + std::string(other) + " is " +
         std::to_string(expected));
}

void require_dtype(std::string_view what, DType came, std::string_view other, DType expected) {
  if (came == expected) return;
  refuse(std::string(what) + " has dtype " + std::string(to_string(came)) + "; " +
         std::string(other) + " has " + std::string(to_string(expected)));
}

void require_host(std::string_view what, Device device) {
  if (device.kind == DeviceKind::cpu) return;
  refuse(std::string(what) + " must be on the host; got a tensor on " + to_string(device));
}

void require_unit_stride(std::string_view what, std::int64_t stride) {
  if (stride == 1) return;
  refuse(std::string(what) + " must have stride 1 in head_dim; got " + std::to_string(stride));
}

void require_data(std::string_view what, const void* data, std::int64_t elements) {
  if (elements == 0 || data != nullptr) return;
  refuse(std::string(what) + " has no data (null)");
}

// Checks that the padded and the packed tensor hold the same rows; returns their number.
std::int64_t check_padding(const PaddedView& padded, std::span<const std::int64_t> lengths,
                           const TensorView& packed) {
  require_equal("the number of lengths", std::ssize(lengths), "padded's batch", padded.shape[0]);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > padded.shape[1]) {
      refuse("lengths[" + std::to_string(i) + "] must be in 0.." + std::to_string(padded.shape[1]) +
             ", padded's max_len; got " + std::to_string(lengths[i]));
    }
    total += lengths[i];
  }
  if (packed.shape[0] < total) {
    refuse("packed has " + std::to_string(packed.shape[0]) + " rows; the lengths sum to " +
           std::to_string(total));
  }
  require_equal("packed's heads", packed.shape[1], "padded's heads", padded.shape[2]);
  require_equal("packed's head_dim", packed.shape[2], "padded's head_dim", padded.shape[3]);
  require_dtype("packed", packed.dtype, "padded", padded.dtype);
  require_host("packed", packed.device);
  require_unit_stride("packed", packed.strides[2]);
  require_unit_stride("padded", padded.strides[3]);
  const std::int64_t row = padded.shape[2] * padded.shape[3];
  require_data("packed", packed.data, total * row);
  require_data("padded", padded.data, padded.shape[0] * padded.shape[1] * row);
  return total;
}

void* padded_row(const PaddedView& padded, std::int64_t entry, std::int64_t position,
                 std::int64_t head) noexcept {
  return static_cast<char*>(padded.data) +
         (entry * padded.strides[0] + position * padded.strides[1] + head * padded.strides[2]) *
             size_bytes(padded.dtype);
}

// Calls move(padded row, packed row or null past the length) for every row of every head.
template <typename Move>
void for_rows(const PaddedView& padded, std::span<const std::int64_t> lengths,
              const TensorView& packed, Move&& move) {
  std::int64_t token = 0;
  for (std::int64_t entry = 0; entry < padded.shape[0]; ++entry) {
    const std::int64_t length = lengths[static_cast<std::size_t>(entry)];
    for (std::int64_t position = 0; position < padded.shape[1]; ++position) {
      const bool inside = position < length;
      for (std::int64_t head = 0; head < padded.shape[2]; ++head) {
        move(padded_row(padded, entry, position, head), inside ? packed.row(token, head) : nullptr);
      }
      token += inside ? 1 : 0;
    }
  }
}

float& lse_at(const LseView& lse, std::int64_t token, std::int64_t head) noexcept {
  return lse.data[token * lse.strides[0] + head * lse.strides[1]];
}

void check_merge(const TensorView& tensor, const LseView& lse, std::string_view name,
                 const TensorView& out, bool lse_needed) {
  const std::string tensor_name = "out" + std::string(name);
  const std::string lse_name = "lse" + std::string(name);
  const std::string_view expected = "out's";
  require_equal(tensor_name + "'s tokens", tensor.shape[0], expected, out.shape[0]);
  require_equal(tensor_name + "'s heads", tensor.shape[1], expected, out.shape[1]);
  require_equal(tensor_name + "'s head_dim", tensor.shape[2], expected, out.shape[2]);
  require_dtype(tensor_name, tensor.dtype, "out", out.dtype);
  require_host(tensor_name, tensor.device);
  require_unit_stride(tensor_name, tensor.strides[2]);
  const std::int64_t rows = out.shape[0] * out.shape[1];
  require_data(tensor_name, tensor.data, rows * out.shape[2]);
  if (lse_needed) require_data(lse_name, lse.data, rows);
  if (lse.data == nullptr) return;
  require_equal(lse_name + "'s tokens", lse.shape[0], expected, out.shape[0]);
  require_equal(lse_name + "'s heads", lse.shape[1], expected, out.shape[1]);
  require_host(lse_name, lse.device);
}

// Merges one row of one head. A part of weight 0 is not read: its row may hold anything.
void merge_row(const void* a, double weight_a, const void* b, double weight_b, void* out,
               DType dtype, std::int64_t head_dim) noexcept {
  const std::int64_t size = size_bytes(dtype);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    const std::int64_t at = d * size;
    double value = 0.0;
    if (weight_a != 0.0) {
      value +=
          weight_a * static_cast<double>(load_element(static_cast<const char*>(a) + at, dtype));
    }
    if (weight_b != 0.0) {
      value +=
          weight_b * static_cast<double>(load_element(static_cast<const char*>(b) + at, dtype));
    }
    store_element(static_cast<char*>(out) + at, dtype, static_cast<float>(value));
  }
}

}  // namespace

PaddedView PaddedView::dense(const void* data, DType dtype, std::int64_t batch,
                             std::int64_t max_len, std::int64_t heads, std::int64_t head_dim) {
  return {const_cast<void*>(data),
          dtype,
          {batch, max_len, heads, head_dim},
          {max_len * heads * head_dim, heads * head_dim, head_dim, 1}};
}

void pack(const PaddedView& padded, std::span<const std::int64_t> lengths,
          const TensorView& packed) {
  check_padding(padded, lengths, packed);
  const auto bytes = static_cast<std::size_t>(padded.shape[3] * size_bytes(padded.dtype));
  for_rows(padded, lengths, packed, [bytes](const void* from, void* to) {
    if (to != nullptr) std::memcpy(to, from, bytes);
  });
}

void unpack(const TensorView& packed, std::span<const std::int64_t> lengths,
            const PaddedView& padded) {
  check_padding(padded, lengths, packed);
  const auto bytes = static_cast<std::size_t>(padded.shape[3] * size_bytes(padded.dtype));
  for_rows(padded, lengths, packed, [bytes](void* to, const void* from) {
    if (from == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  });
}

void merge_by_lse(const TensorView& out_a, const LseView& lse_a, const TensorView& out_b,
                  const LseView& lse_b, const TensorView& out, const LseView& lse) {
  check_merge(out, lse, "", out, false);
  check_merge(out_a, lse_a, "_a", out, true);
  check_merge(out_b, lse_b, "_b", out, true);
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  for (std::int64_t token = 0; token < out.shape[0]; ++token) {
    for (std::int64_t head = 0; head < out.shape[1]; ++head) {
      const double a = static_cast<double>(lse_at(lse_a, token, head));
      const double b = static_cast<double>(lse_at(lse_b, token, head));
      const double larger = a < b ? b : a;
      // Two infinite equals would differ by NaN, so what saw no key is taken out first.
      const double weight_a = a == kNothing ? 0.0 : std::exp(a - larger);
      const double weight_b = b == kNothing ? 0.0 : std::exp(b - larger);
      const double sum = weight_a + weight_b;
      const double scale = sum == 0.0 ? 0.0 : 1.0 / sum;
      merge_row(out_a.row(token, head), weight_a * scale, out_b.row(token, head), weight_b * scale,
                out.row(token, head), out.dtype, out.shape[2]);
      if (lse.data == nullptr) continue;
      lse_at(lse, token, head) = static_cast<float>(sum == 0.0 ? kNothing : larger + std::log(sum));
    }
  }
}

}  // namespace ragged
