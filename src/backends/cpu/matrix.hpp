#pragma once

// Items on a processor's matrix tiles, where it has them: bf16 in and out, products summed in fp32,
// softmax weights rounded to bf16 as a tensor core takes them. One folder an instruction set.

#include <cstddef>
#include <cstdint>

#include "backends/cpu/band.hpp"
#include "backends/cpu/elements.hpp"
#include "backends/cpu/job.hpp"
#include "backends/cpu/prefetch.hpp"

namespace ragged::cpu::matrix {

// Query rows taken together: two tiles high, so that every tile of keys or values serves twice.
inline constexpr int kPanelRows = 32;
// Keys of one step. Longer steps load and store the outputs less often, which long rows gain from
// (128 dims: 585 to 630 GFLOP/s); shorter ones keep scores and weights near the first-level cache,
// which short rows gain from (64 dims: 405 against 380).
inline constexpr int kMaxChunkKeys = 256;
constexpr int chunk_keys(int head_dim) { return head_dim >= 128 ? kMaxChunkKeys : 128; }
// Rows of an item (query rows times heads of the group) that pay for packing its keys.
inline constexpr std::int64_t kUnitRows = 512;
// Query tokens of a segment below which a panel is too empty to win over the vector kernel. Not
// rows of the group: the two kernels differ in bits, and one rank's heads must have those of the
// whole.
inline constexpr std::int64_t kFewestTokens = 8;

// True if this build has the kernel and this machine lets the process use the tiles.
bool available() noexcept;

// Bytes of one worker's scratch for items of at most `rows` rows; a multiple of 64.
std::size_t scratch_bytes(int head_dim, std::int64_t rows) noexcept;

// The tile state of the calling thread: set for the items of one run, released after the last.
class Tiles {
 public:
  explicit Tiles(bool used) noexcept;
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  bool used_;
};

// What one worker's items have in common.
struct Context {
  int head_dim = 0;
  float scale = 0.0F;         // sm_scale * log2(e)
  std::int64_t max_rows = 0;  // of an item, as scratch_bytes was told
  void* scratch = nullptr;    // aligned to 64 bytes
};

// `next`: probably this worker's next item, to be fetched ahead, or null. `share`: what to fetch
// instead, or null. Precondition: the thread holds Tiles(true).
void run_item(const Item<Bf16>& item, const Item<Bf16>* next, const BandShare* share,
              const Context& context, Prefetcher& prefetcher) noexcept;

}  // namespace ragged::cpu::matrix
