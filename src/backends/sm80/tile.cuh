#pragma once

// How rows of a head lie in shared memory: [rows][kDim] 16-bit elements without gaps, the 16-byte
// chunks of a row exchanged so that eight rows' reads of one column fall on all banks.

#include <cstdint>

namespace ragged::sm80 {

template <int kDim>
struct TileLayout {
  static_assert(kDim % 16 == 0);
  static constexpr int kChunks = kDim / 8;           // of 16 bytes in a row
  static constexpr std::uint32_t kPitch = kDim * 2;  // bytes
  static constexpr int kSteps = kDim / 16;           // products of 16 columns

  // Rows begin at multiples of 2, 4 or 8 chunks (times an odd number), modulo the 8 chunks that one
  // wavefront reads: what is left of the eight rows' conflict is exchanged away.
  static __device__ __forceinline__ std::uint32_t exchange(std::uint32_t row) {
    if constexpr (kSteps % 4 == 0) return row & 7;
    if constexpr (kSteps % 4 == 2) return (row >> 1) & 3;
    return (row >> 2) & 1;
  }
  // Byte offset of a chunk.
  static __device__ __forceinline__ std::uint32_t at(std::uint32_t row, std::uint32_t chunk) {
    return row * kPitch + 16 * (chunk ^ exchange(row));
  }
  // From the address of chunk 0 or 1 to that of the chunk 2 * step further. The lower address bits
  // are free of carries as rows begin at multiples of the exchanged chunks.
  static __device__ __forceinline__ std::uint32_t step(std::uint32_t address, int step) {
    if constexpr (kSteps % 4 == 0) return (address ^ (32U * (step & 3))) + 128U * (step >> 2);
    if constexpr (kSteps % 4 == 2) return (address ^ (32U * (step & 1))) + 64U * (step >> 1);
    return address + 32U * static_cast<std::uint32_t>(step);
  }
  // Rows are copied with kLanes lanes each, kRowsPerStep at a time: lane l takes chunk l % kLanes
  // (if there is one) of row l / kLanes. From the lane's address in the first rows to that in those
  // of a later step of the same sixteen.
  static constexpr int kLanes = kChunks <= 2    ? 2
                                : kChunks <= 4  ? 4
                                : kChunks <= 8  ? 8
                                : kChunks <= 16 ? 16
                                                : 32;
  static constexpr int kRowsPerStep = 32 / kLanes;
  static constexpr int kCopySteps = 16 / kRowsPerStep;
  static __device__ __forceinline__ std::uint32_t copy_step(std::uint32_t address, int step) {
    const auto rows = static_cast<std::uint32_t>(kRowsPerStep * step);
    return (address ^ (16U * exchange(rows))) + rows * kPitch;
  }
  // Where a lane's row begins for ldmatrix: rows as the first operand (queries; values transposed).
  static __device__ __forceinline__ std::uint32_t lane_a(std::uint32_t lane) {
    return at(lane & 15, lane >> 4);
  }
  // ... and as the second (keys).
  static __device__ __forceinline__ std::uint32_t lane_b(std::uint32_t lane) {
    return at((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
  }
};

}  // namespace ragged::sm80
