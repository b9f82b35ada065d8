#pragma once

// Safetensors files, read with every claim of the header checked, and written in one piece.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ragged::safetensors {

enum class ElementType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64,
};

// As the header spells it: "F32", "BF16", "I64".
std::string_view to_string(ElementType type) noexcept;
std::size_t size_bytes(ElementType type) noexcept;

// One tensor; `data` points into the bytes that it was read from, or that are to be written, and
// may have any alignment.
struct Tensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;  // row-major; empty for a scalar
  std::span<const std::byte> data;

  [[nodiscard]] std::int64_t elements() const noexcept;
};

struct Archive {
  std::map<std::string, std::string> metadata;
  std::vector<Tensor> tensors;  // in the order of their data

  // Null if there is none of this name.
  [[nodiscard]] const Tensor* find(std::string_view name) const noexcept;
};

// Reads an archive that lies in memory; the result points into `bytes`. Throws
// ragged::Error(invalid_argument) that says what of the header is wrong: its length, its JSON, a
// name that comes twice, an unknown dtype, a shape whose size leaves 64 bits, offsets outside the
// data, data that does not fit the shape, tensors that overlap, bytes that belong to no tensor.
Archive parse(std::span<const std::byte> bytes);

// A file read into memory and parsed.
class File {
 public:
  // Throws invalid_argument naming the path: what parse() throws, or why it cannot be read.
  explicit File(const std::string& path);
  [[nodiscard]] const Archive& archive() const noexcept { return archive_; }

 private:
  std::vector<std::byte> bytes_;
  Archive archive_;
};

// The bytes of an archive. Data starts at a multiple of 8 and tensors are laid out by falling
// element size, so each is aligned to its own. Throws invalid_argument where the size of a tensor's
// data is not that of its shape and type, or two share a name.
std::vector<std::byte> serialize(const std::vector<Tensor>& tensors,
                                 const std::map<std::string, std::string>& metadata);

}  // namespace ragged::safetensors
