// Two calls of OpenBLAS' sgemm for each 128 query rows of a head: the composition that one writes
// first. Whole rows of scores, which stay in the second-level cache up to some thousand keys.

#include <cblas.h>

#include "bench/composition.hpp"
#include "bench/peer_list.hpp"

namespace ragged::bench {
namespace {

struct OpenBlasGemm {
  static constexpr std::int64_t kRowBlock = 128;
  static constexpr std::int64_t kKeyBlock = std::int64_t{1} << 40;  // never cut

  OpenBlasGemm(std::int64_t /*max_keys*/, std::int64_t head_dim) : dim(int(head_dim)) {}

  void begin(Rows keys_in, std::int64_t /*keys*/, std::int64_t /*head_dim*/) { k = keys_in; }

  void scores(Rows q, std::int64_t rows, std::int64_t key_begin, std::int64_t keys, float* scores,
              std::int64_t stride) const {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows), int(keys), dim, 1.0F, q.data,
                int(q.stride), k.data + key_begin * k.stride, int(k.stride), 0.0F, scores,
                int(stride));
  }

  void output(const float* weights, std::int64_t stride, std::int64_t rows, Rows v,
              std::int64_t keys, float* out, std::int64_t out_stride, bool add) const {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, int(rows), dim, int(keys), 1.0F, weights,
                int(stride), v.data, int(v.stride), add ? 1.0F : 0.0F, out, int(out_stride));
  }

  int dim;
  bool failed = false;  // sgemm has no way to say so
  Rows k;
};

class OpenBlasPeer final : public Peer {
 public:
  std::string_view name() const noexcept override { return "openblas-q128"; }
  std::string version() const override {
    return std::string(openblas_get_config()) + " on " + openblas_get_corename();
  }
  std::string declines(const Problem& problem) const override {
    return composition_declines(problem);
  }
  std::unique_ptr<PeerRun> prepare(const Plan& plan, int threads) const override {
    openblas_set_num_threads(1);  // the threads are over heads and segments
    return std::make_unique<Composition<OpenBlasGemm>>(plan, threads);
  }
};

}  // namespace

const Peer& openblas_peer() {
  static const OpenBlasPeer peer;
  return peer;
}

}  // namespace ragged::bench
