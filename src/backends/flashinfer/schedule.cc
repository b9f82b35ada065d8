#include "backends/flashinfer/schedule.hpp"

namespace ragged::fi {
namespace {

// Places arrays one behind the other, each at 256 bytes.
class Placer {
 public:
  explicit Placer(std::size_t begin) : at_(begin) {}
  std::size_t put(std::size_t bytes) noexcept {
    const std::size_t here = at_;
    at_ += (bytes + 255) / 256 * 256;
    return here;
  }
  [[nodiscard]] std::size_t end() const noexcept { return at_; }

 private:
  std::size_t at_;
};

}  // namespace

ScheduleLayout schedule_layout(const device::TableShape& shape, int num_rules) noexcept {
  const auto units = static_cast<std::size_t>(shape.max_units);
  const std::size_t entries = units * sizeof(std::int64_t);
  Placer place(device::table_layout(shape).bytes);
  ScheduleLayout layout;
  layout.q_rows_at = place.put(entries);
  layout.kv_rows_at = place.put(entries);
  layout.requests_at = place.put(entries);
  layout.zeros_at = place.put(entries);
  layout.chunk_keys_at = place.put(sizeof(std::int64_t));
  layout.valid_at = place.put(units * static_cast<std::size_t>(num_rules));
  layout.bytes = place.end();
  return layout;
}

SchedulePointers schedule_at(const ScheduleLayout& layout, void* table) noexcept {
  const auto at = [&](std::size_t offset) {
    return reinterpret_cast<std::int64_t*>(static_cast<std::byte*>(table) + offset);
  };
  SchedulePointers pointers;
  pointers.q_rows = at(layout.q_rows_at);
  pointers.kv_rows = at(layout.kv_rows_at);
  pointers.requests = at(layout.requests_at);
  pointers.zeros = at(layout.zeros_at);
  pointers.chunk_keys = at(layout.chunk_keys_at);
  pointers.valid = reinterpret_cast<bool*>(at(layout.valid_at));
  return pointers;
}

}  // namespace ragged::fi
