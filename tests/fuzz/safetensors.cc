// Any bytes: the reader refuses them as invalid_argument, or what it found lies inside them, fits
// its shape, and comes back equal when written and read again.

#include <algorithm>
#include <cstdint>
#include <memory>

#include <ragged/error.hpp>

#include "check.hpp"
#include "safetensors.hpp"

using ragged::safetensors::Archive;
using ragged::safetensors::Tensor;

namespace {

void check_inside(const Tensor& tensor, std::span<const std::byte> bytes) {
  FUZZ_CHECK(tensor.elements() >= 0);
  FUZZ_CHECK(static_cast<std::size_t>(tensor.elements()) * size_bytes(tensor.type) ==
             tensor.data.size());
  if (tensor.data.empty()) return;
  FUZZ_CHECK(tensor.data.data() >= bytes.data());
  FUZZ_CHECK(tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
}

void check_again(const Archive& archive) {
  const std::vector<std::byte> written =
      ragged::safetensors::serialize(archive.tensors, archive.metadata);
  const Archive again = ragged::safetensors::parse(written);
  FUZZ_CHECK(again.metadata == archive.metadata);
  FUZZ_CHECK(again.tensors.size() == archive.tensors.size());
  for (const Tensor& tensor : archive.tensors) {
    const Tensor* found = again.find(tensor.name);
    FUZZ_CHECK(found != nullptr);
    FUZZ_CHECK(found->type == tensor.type && found->shape == tensor.shape);
    FUZZ_CHECK(
        std::equal(found->data.begin(), found->data.end(), tensor.data.begin(), tensor.data.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Memory of its own, so that one byte too far is seen.
  const auto copy = std::make_unique<std::byte[]>(size);
  std::transform(data, data + size, copy.get(), [](std::uint8_t b) { return std::byte{b}; });
  const std::span<const std::byte> bytes(copy.get(), size);
  Archive archive;
  try {
    archive = ragged::safetensors::parse(bytes);
  } catch (const ragged::Error& error) {
    FUZZ_CHECK(error.code() == ragged::ErrorCode::invalid_argument);
    return 0;
  }
  for (const Tensor& tensor : archive.tensors) {
    check_inside(tensor, bytes);
    FUZZ_CHECK(archive.find(tensor.name) == &tensor);
  }
  check_again(archive);
  return 0;
}
