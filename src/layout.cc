#include <ragged/layout.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>

namespace ragged {
namespace {

// No address space holds more rows than this, and sums of a few such counts stay inside 64 bits.
constexpr std::int64_t kMaxRow = std::int64_t{1} << 48;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

std::string entry(std::string_view argument, std::int64_t i, std::int64_t value) {
  return std::string(argument) + "[" + std::to_string(i) + "] = " + std::to_string(value);
}

template <typename T>
std::int64_t load(const void* data, std::int64_t stride, std::int64_t i) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * stride * std::int64_t{sizeof(T)},
              sizeof(T));
  return value;
}

// Calls action(at) with an accessor of the view's own type, so that loops do not branch on it.
template <typename Action>
auto with_entries(const IndexView& view, Action&& action) {
  if (view.type == IndexType::int32) {
    return action(
        [&view](std::int64_t i) noexcept { return load<std::int32_t>(view.data, view.stride, i); });
  }
  return action(
      [&view](std::int64_t i) noexcept { return load<std::int64_t>(view.data, view.stride, i); });
}

void check_entries(const IndexView& view, std::string_view argument, std::int64_t min_count) {
  if (view.count < min_count) {
    refuse(std::string(argument) + " must have at least " + std::to_string(min_count) +
           (min_count == 1 ? " entry; got " : " entries; got ") + std::to_string(view.count));
  }
  if (view.count > 0 && view.data == nullptr) {
    refuse(std::string(argument) + " has " + std::to_string(view.count) +
           " entries but its data is null");
  }
}

void check_view(const IndexView& view, std::string_view argument, std::int64_t min_count) {
  if (view.device.kind != DeviceKind::cpu) {
    refuse(std::string(argument) + " must be on the host; got a tensor on " +
           to_string(view.device));
  }
  check_entries(view, argument, min_count);
}

// Runs what may allocate; a failed allocation becomes the library's own error.
template <typename Action>
void allocating(std::int64_t entries, Action&& action) {
  const auto failed = [entries] {
    throw Error(ErrorCode::out_of_memory,
                "no memory for a layout of " + std::to_string(entries) + " segments");
  };
  try {
    action();
  } catch (const std::bad_alloc&) {
    failed();
  } catch (const std::length_error&) {
    failed();
  }
}

// Refuses spans that share a row, naming the two. Starts that never fall are the common case and
// cost one pass.
void refuse_overlap(const IndexView& starts, const IndexView& lengths, std::string_view argument) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(starts.count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::erase_if(order, [&](std::int64_t i) { return lengths.at(i) == 0; });
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return starts.at(a) != starts.at(b) ? starts.at(a) < starts.at(b) : a < b;
  });
  for (std::size_t n = 1; n < order.size(); ++n) {
    const std::int64_t before = order[n - 1];
    const std::int64_t end = starts.at(before) + lengths.at(before);
    if (starts.at(order[n]) < end) {
      refuse(std::string(argument) + ": segment " + std::to_string(order[n]) + " starts at row " +
             std::to_string(starts.at(order[n])) + ", inside segment " + std::to_string(before) +
             ", which ends at row " + std::to_string(end));
    }
  }
}

}  // namespace

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return {DeviceKind::cpu, 0};
  if (text == "cuda") return {DeviceKind::cuda, 0};
  if (text.starts_with("cuda:")) {
    const std::string_view digits = text.substr(5);
    const bool all_digits =
        !digits.empty() && digits.size() <= 4 &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (all_digits) return {DeviceKind::cuda, std::stoi(std::string(digits))};
  }
  refuse("device must be cpu, cuda or cuda:N; got '" + std::string(text) + "'");
}

TensorView TensorView::packed(const void* data, DType dtype, std::int64_t tokens,
                              std::int64_t heads, std::int64_t head_dim, Device device) {
  return {const_cast<void*>(data),
          dtype,
          {tokens, heads, head_dim},
          {heads * head_dim, head_dim, 1},
          device};
}

void* TensorView::row(std::int64_t token, std::int64_t head) const noexcept {
  return static_cast<char*>(data) + (token * strides[0] + head * strides[1]) * size_bytes(dtype);
}

LseView LseView::packed(float* data, std::int64_t tokens, std::int64_t heads, Device device) {
  return {data, {tokens, heads}, {heads, 1}, device};
}

IndexView::IndexView(std::span<const std::int32_t> values)
    : IndexView(values.data(), IndexType::int32, std::ssize(values)) {}
IndexView::IndexView(std::span<const std::int64_t> values)
    : IndexView(values.data(), IndexType::int64, std::ssize(values)) {}
IndexView::IndexView(const std::vector<std::int32_t>& values)
    : IndexView(values.data(), IndexType::int32, std::ssize(values)) {}
IndexView::IndexView(const std::vector<std::int64_t>& values)
    : IndexView(values.data(), IndexType::int64, std::ssize(values)) {}
IndexView::IndexView(std::initializer_list<std::int64_t> values)
    : IndexView(values.begin(), IndexType::int64, static_cast<std::int64_t>(values.size())) {}

std::int64_t IndexView::at(std::int64_t i) const noexcept {
  return type == IndexType::int32 ? load<std::int32_t>(data, stride, i)
                                  : load<std::int64_t>(data, stride, i);
}

void Layout::assign_offsets(const IndexView& cu_seqlens, std::string_view argument) {
  check_view(cu_seqlens, argument, 1);
  const std::int64_t count = cu_seqlens.count;
  with_entries(cu_seqlens, [&](auto at) {
    if (at(0) != 0) {
      refuse(std::string(argument) + "[0] must be 0; got " + std::to_string(at(0)));
    }
    // Everything is checked before anything is written.
    std::int64_t longest = 0;
    std::int64_t before = 0;
    for (std::int64_t i = 1; i < count; ++i) {
      const std::int64_t now = at(i);
      if (now < before) {
        refuse(entry(argument, i, now) + " is less than " + entry(argument, i - 1, before));
      }
      if (now > kMaxRow) {
        refuse(entry(argument, i, now) + " is more than the largest offset, " +
               std::to_string(kMaxRow));
      }
      longest = std::max(longest, now - before);
      before = now;
    }
    allocating(count - 1, [&] { offsets_.resize(static_cast<std::size_t>(count)); });
    for (std::int64_t i = 0; i < count; ++i) offsets_[static_cast<std::size_t>(i)] = at(i);
    ends_.clear();
    num_segments_ = count - 1;
    extent_ = total_tokens_ = before;
    max_length_ = longest;
    gaps_ = false;
    known_ = true;
  });
}

void Layout::assign_spans(const SegmentSpans& spans, std::string_view argument) {
  const std::string starts_name = std::string(argument) + ".starts";
  const std::string lengths_name = std::string(argument) + ".lengths";
  const IndexView& starts = spans.starts;
  const IndexView& lengths = spans.lengths;
  check_view(starts, starts_name, 0);
  check_view(lengths, lengths_name, 0);
  if (starts.count != lengths.count) {
    refuse(starts_name + " has " + std::to_string(starts.count) + " entries, " + lengths_name +
           " has " + std::to_string(lengths.count));
  }
  const std::int64_t count = starts.count;
  std::int64_t extent = 0;
  std::int64_t total = 0;
  std::int64_t longest = 0;
  std::int64_t packed_end = 0;  // where the next segment starts if there are no gaps
  bool gaps = false;
  bool in_order = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = starts.at(i);
    const std::int64_t length = lengths.at(i);
    if (start < 0 || start > kMaxRow) {
      refuse(entry(starts_name, i, start) + " must be in 0.." + std::to_string(kMaxRow));
    }
    if (length < 0 || length > kMaxRow - start) {
      refuse(entry(lengths_name, i, length) + " must be in 0.." + std::to_string(kMaxRow - start));
    }
    gaps = gaps || start != packed_end;
    packed_end = start + length;
    if (length == 0) continue;
    in_order = in_order && start >= extent;
    extent = std::max(extent, start + length);
    longest = std::max(longest, length);
    // More than any extent: some overlap, and are refused below.
    if (total <= kMaxRow) total += length;
  }
  if (!in_order) {
    allocating(count, [&] { refuse_overlap(starts, lengths, argument); });
  }
  const auto entries = static_cast<std::size_t>(count);
  allocating(count, [&] {
    offsets_.reserve(entries + 1);
    ends_.reserve(gaps ? entries : 0);
  });
  offsets_.resize(gaps ? entries : entries + 1);
  ends_.resize(gaps ? entries : 0);
  if (!gaps) offsets_[entries] = packed_end;
  for (std::int64_t i = 0; i < count; ++i) {
    offsets_[static_cast<std::size_t>(i)] = starts.at(i);
    if (gaps) ends_[static_cast<std::size_t>(i)] = starts.at(i) + lengths.at(i);
  }
  num_segments_ = count;
  extent_ = extent;
  total_tokens_ = total;
  max_length_ = longest;
  gaps_ = gaps;
  known_ = true;
}

void Layout::assign_unread(const IndexView& cu_seqlens, std::string_view argument,
                           std::int64_t max_tokens) {
  if (cu_seqlens.device.kind == DeviceKind::cpu) {
    refuse(std::string(argument) + " must be on a device to be read there; got host memory");
  }
  check_entries(cu_seqlens, argument, 1);
  const std::uintptr_t size = cu_seqlens.type == IndexType::int64 ? 8 : 4;
  const std::uintptr_t misplaced = reinterpret_cast<std::uintptr_t>(cu_seqlens.data) % size;
  if (misplaced != 0) {
    refuse(std::string(argument) + " must be aligned to " + std::to_string(size) +
           " bytes; its address is " + std::to_string(misplaced) + " past a multiple");
  }
  allocating(cu_seqlens.count - 1,
             [&] { offsets_.assign(static_cast<std::size_t>(cu_seqlens.count), 0); });
  ends_.clear();
  num_segments_ = cu_seqlens.count - 1;
  extent_ = total_tokens_ = max_length_ = 0;
  max_tokens_ = max_tokens;
  gaps_ = false;
  known_ = false;
}

bool Layout::same_offsets(const IndexView& cu_seqlens) const noexcept {
  if (gaps_ || !known_ || cu_seqlens.count != num_segments_ + 1 || cu_seqlens.data == nullptr ||
      cu_seqlens.device.kind != DeviceKind::cpu) {
    return false;
  }
  return with_entries(cu_seqlens, [&](auto at) {
    // A look at the outcome for each block only, so that a block is compared in vectors.
    constexpr std::int64_t kBlock = 64;
    const std::int64_t* mine = offsets_.data();
    for (std::int64_t begin = 0; begin <= num_segments_; begin += kBlock) {
      const std::int64_t end = std::min(begin + kBlock, num_segments_ + 1);
      std::int64_t difference = 0;
      for (std::int64_t i = begin; i < end; ++i) difference |= at(i) ^ mine[i];
      if (difference != 0) return false;
    }
    return true;
  });
}

void Layout::reserve(std::int64_t max_num_segments) {
  if (max_num_segments < 0) {
    refuse("max_num_segments must be at least 0; got " + std::to_string(max_num_segments));
  }
  allocating(max_num_segments, [&] {
    offsets_.reserve(static_cast<std::size_t>(max_num_segments) + 1);
    ends_.reserve(static_cast<std::size_t>(max_num_segments));
  });
}

bool operator==(const Layout& a, const Layout& b) noexcept {
  return a.num_segments_ == b.num_segments_ && a.gaps_ == b.gaps_ && a.known_ == b.known_ &&
         a.max_tokens() == b.max_tokens() && a.offsets_ == b.offsets_ && a.ends_ == b.ends_;
}

std::vector<std::int64_t> offsets_from_lengths(std::span<const std::int64_t> lengths) {
  std::vector<std::int64_t> offsets;
  allocating(std::ssize(lengths), [&] { offsets.reserve(lengths.size() + 1); });
  offsets.push_back(0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (lengths[i] < 0) refuse(entry("lengths", index, lengths[i]) + " must be at least 0");
    if (lengths[i] > std::numeric_limits<std::int64_t>::max() - offsets.back()) {
      refuse(entry("lengths", index, lengths[i]) + " takes the sum of the lengths out of 64 bits");
    }
    offsets.push_back(offsets.back() + lengths[i]);
  }
  return offsets;
}

}  // namespace ragged
