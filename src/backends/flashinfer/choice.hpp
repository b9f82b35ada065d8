#pragma once

// Which problems the kernels of this build serve, and by which tiles. Pure functions.

#include <string>

#include "backends/contract.hpp"
#include "device/attention_args.hpp"

namespace ragged::fi {

// Why these kernels cannot serve the problem: what the argument must be, and what came; of an
// instance that is not built, the option that builds it. Empty if they can.
std::string declines(const Problem& problem);

// The same for tensors that the kernels read and write in place.
std::string declines_tensors(const device::AttentionArgs& args);

// The head dim of the kernels that serve a problem: the smallest that is built at or above its own;
// 0 where there is none.
int kernel_dim(const Problem& problem);

// Tile::variant is the number of packed rows (query rows x group) that a block takes: 16, 64 or
// 128, by the length of the segment's queries alone.
TileTable tiles(const Problem& problem);

}  // namespace ragged::fi
