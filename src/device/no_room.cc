#include "device/room.hpp"

namespace ragged::device {

// A build without CUDA.
const Room* room() noexcept { return nullptr; }

}  // namespace ragged::device
