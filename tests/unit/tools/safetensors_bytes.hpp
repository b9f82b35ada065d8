#pragma once

// Archives built by hand, so that a test can say anything in a header.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ragged::safetensors {

// The length, the header and `data_bytes` zeros; `length` other than 0 replaces the true length.
inline std::vector<std::byte> archive_of(std::string_view header, std::size_t data_bytes,
                                         std::uint64_t length = 0) {
  if (length == 0) length = header.size();
  std::vector<std::byte> bytes(8);
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>((length >> (8 * i)) & 0xff);
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  bytes.resize(bytes.size() + data_bytes);
  return bytes;
}

}  // namespace ragged::safetensors
