#pragma once

// A seeded generator whose numbers are the same on every machine and compiler.

#include <cstdint>
#include <string_view>

namespace ragged::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64.
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // In [low, high], both included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool chance(int percent) { return integer(0, 99) < percent; }

  // Mean 0, standard deviation 1, within 3.47: a sum of four uniform numbers, so that no math
  // library has a say in the values.
  float normal() {
    const std::uint64_t z = bits();
    const auto part = [z](int i) { return static_cast<double>((z >> (16 * i)) & 0xffffU); };
    const double sum = (part(0) + part(1) + part(2) + part(3)) / 65536.0;
    return static_cast<float>((sum - 1.99997) * 1.7320508);
  }

 private:
  std::uint64_t state_;
};

// FNV-1a: a seed from a name.
constexpr std::uint64_t seed_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace ragged::test
