#include "bench/peers.hpp"

#include "bench/peer_list.hpp"

namespace ragged::bench {

std::span<const Peer* const> built_peers() {
  static const Peer* const peers[] = {
#if defined(RAGGED_HAS_OPENBLAS)
    &openblas_peer(),
#endif
#if defined(RAGGED_HAS_LIBXSMM)
    &libxsmm_peer(),
#endif
  };
  return peers;
}

}  // namespace ragged::bench
