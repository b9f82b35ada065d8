#pragma once

// Where segments lie in packed tensors: offsets checked once and made 64-bit, totals and maxima,
// and the view of a tensor that a run is handed.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ragged/declare.hpp>

namespace ragged {

enum class DeviceKind : std::uint8_t { cpu = 0, cuda = 1 };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// "cpu", "cuda:0".
std::string to_string(Device device);
// "cpu", "cuda", "cuda:1". Throws invalid_argument naming the text that came.
Device parse_device(std::string_view text);

// A caller's tensor of shape [tokens, heads, head_dim]. Strides are in elements, may be any value
// for tokens and heads, and must be 1 for head_dim. Never owns. `data` of q, k and v is only read.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::bf16;
  std::array<std::int64_t, 3> shape = {0, 0, 0};
  std::array<std::int64_t, 3> strides = {0, 0, 1};
  Device device = {};

  // A densely packed tensor.
  static TensorView packed(const void* data, DType dtype, std::int64_t tokens, std::int64_t heads,
                           std::int64_t head_dim, Device device = {});
  // Pointer to row `token` of head `head`.
  [[nodiscard]] void* row(std::int64_t token, std::int64_t head) const noexcept;
};

// Log-sum-exp output: fp32, natural logarithm, [total_q, num_qo_heads], strides in elements.
struct LseView {
  float* data = nullptr;  // null: not asked for
  std::array<std::int64_t, 2> shape = {0, 0};
  std::array<std::int64_t, 2> strides = {0, 1};
  Device device = {};

  static LseView packed(float* data, std::int64_t tokens, std::int64_t heads, Device device = {});
};

enum class IndexType : std::uint8_t { int32 = 0, int64 = 1 };

// A caller's one-dimensional index tensor, for example cu_seqlens: int32 or int64, any stride (in
// elements), host or device. Never owns.
struct IndexView {
  const void* data = nullptr;
  IndexType type = IndexType::int32;
  std::int64_t count = 0;
  std::int64_t stride = 1;
  Device device = {};

  IndexView() = default;
  IndexView(const void* data_in, IndexType type_in, std::int64_t count_in,
            std::int64_t stride_in = 1, Device device_in = {})
      : data(data_in), type(type_in), count(count_in), stride(stride_in), device(device_in) {}
  IndexView(std::span<const std::int32_t> values);     // NOLINT(google-explicit-constructor)
  IndexView(std::span<const std::int64_t> values);     // NOLINT(google-explicit-constructor)
  IndexView(const std::vector<std::int32_t>& values);  // NOLINT(google-explicit-constructor)
  IndexView(const std::vector<std::int64_t>& values);  // NOLINT(google-explicit-constructor)
  // Lives to the end of the full expression: plan({0, 729, 1458}).
  IndexView(std::initializer_list<std::int64_t> values);  // NOLINT(google-explicit-constructor)

  // Host entry i, widened. Precondition: 0 <= i < count, device is the CPU.
  [[nodiscard]] std::int64_t at(std::int64_t i) const noexcept;
};

// Segments given one by one, for buffers with gaps between them: segment i is the rows
// [starts[i], starts[i] + lengths[i]). Segments must not overlap; rows in gaps are never touched.
struct SegmentSpans {
  IndexView starts;
  IndexView lengths;
};

// One checked packed layout: segment i is the rows [begin(i), end(i)).
class Layout {
 public:
  Layout() = default;

  // From cu_seqlens on the host: [num_segments + 1], first entry 0, never falling. Throws
  // invalid_argument naming `argument`, the first bad index and both values. Reuses storage.
  void assign_offsets(const IndexView& cu_seqlens, std::string_view argument);
  // From starts and lengths on the host. Throws like assign_offsets; overlap is refused.
  void assign_spans(const SegmentSpans& spans, std::string_view argument);
  // From cu_seqlens on a device, which reads and checks them itself: the host knows the number of
  // segments, and that they may have `max_tokens` rows. Throws invalid_argument naming `argument`
  // where the view itself is wrong.
  void assign_unread(const IndexView& cu_seqlens, std::string_view argument,
                     std::int64_t max_tokens);
  // True if assigning these offsets would give this same layout; never throws.
  [[nodiscard]] bool same_offsets(const IndexView& cu_seqlens) const noexcept;

  // Makes room, so that later assigns of up to this many segments allocate nothing.
  void reserve(std::int64_t max_num_segments);

  [[nodiscard]] std::int64_t num_segments() const noexcept { return num_segments_; }
  // False after assign_unread: every length, total and offset below then reads as 0.
  [[nodiscard]] bool known() const noexcept { return known_; }
  // The most rows that it may have; total_tokens() where that is known.
  [[nodiscard]] std::int64_t max_tokens() const noexcept {
    return known_ ? total_tokens_ : max_tokens_;
  }
  // Rows that a tensor must have: the largest end of any segment with rows.
  [[nodiscard]] std::int64_t extent() const noexcept { return extent_; }
  // Sum of the lengths. Equal to extent() without gaps.
  [[nodiscard]] std::int64_t total_tokens() const noexcept { return total_tokens_; }
  [[nodiscard]] std::int64_t max_length() const noexcept { return max_length_; }
  [[nodiscard]] bool has_gaps() const noexcept { return gaps_; }

  // Both arrays have num_segments entries; without gaps, ends() is begins() + 1 in one array.
  [[nodiscard]] const std::int64_t* begins() const noexcept { return offsets_.data(); }
  [[nodiscard]] const std::int64_t* ends() const noexcept {
    return gaps_ ? ends_.data() : offsets_.data() + 1;
  }
  [[nodiscard]] std::int64_t begin(std::int64_t i) const noexcept { return begins()[i]; }
  [[nodiscard]] std::int64_t end(std::int64_t i) const noexcept { return ends()[i]; }
  [[nodiscard]] std::int64_t length(std::int64_t i) const noexcept { return end(i) - begin(i); }

  friend bool operator==(const Layout& a, const Layout& b) noexcept;

 private:
  std::vector<std::int64_t> offsets_ = {0};
  std::vector<std::int64_t> ends_;  // only with gaps
  std::int64_t num_segments_ = 0;
  std::int64_t extent_ = 0;
  std::int64_t total_tokens_ = 0;
  std::int64_t max_length_ = 0;
  std::int64_t max_tokens_ = 0;  // only where not known
  bool gaps_ = false;
  bool known_ = true;
};

// cu_seqlens of segments packed end to end: [lengths.size() + 1]. Throws invalid_argument naming
// the first negative length, or the index where the sum leaves 64 bits.
std::vector<std::int64_t> offsets_from_lengths(std::span<const std::int64_t> lengths);

}  // namespace ragged
