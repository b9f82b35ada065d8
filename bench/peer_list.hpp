#pragma once

#include "bench/peers.hpp"

namespace ragged::bench {

const Peer& openblas_peer();
const Peer& libxsmm_peer();

}  // namespace ragged::bench
