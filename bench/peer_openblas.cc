// Two calls of OpenBLAS' sgemm for each 128 query rows of a head: the composition that one writes
// first. Whole rows of scores, which stay in the second-level cache up to some thousand keys.

#include <cblas.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "bench/composition.hpp"
#include "bench/peer_list.hpp"

namespace ragged::bench {
namespace {

// OpenBLAS chooses its kernels while it is loaded, and takes processors newer than itself for very
// old ones, at a tenth of their speed. So it is loaded here, at first use, after it was told which
// kernels the processor can run; OPENBLAS_CORETYPE, where set, has the last word.
struct OpenBlas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  decltype(&openblas_get_config) config = nullptr;
  decltype(&openblas_get_corename) corename = nullptr;
  std::string error;  // empty: loaded

  OpenBlas() {
#if defined(__x86_64__)
    constexpr int kKeep = 0;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      setenv("OPENBLAS_CORETYPE", "SkylakeX", kKeep);
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      setenv("OPENBLAS_CORETYPE", "Haswell", kKeep);
    }
#endif
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      error = dlerror();
      return;
    }
    find(library, "cblas_sgemm", sgemm);
    find(library, "openblas_set_num_threads", set_num_threads);
    find(library, "openblas_get_config", config);
    find(library, "openblas_get_corename", corename);
    if (error.empty()) set_num_threads(1);  // the threads are over heads and segments
  }

  template <typename Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) error = std::string("libopenblas.so.0 lacks ") + name;
  }
};

const OpenBlas& openblas() {
  static const OpenBlas library;
  return library;
}

struct OpenBlasGemm {
  static constexpr std::int64_t kRowBlock = 128;
  static constexpr std::int64_t kKeyBlock = std::int64_t{1} << 40;  // never cut

  OpenBlasGemm(std::int64_t /*max_keys*/, std::int64_t head_dim) : dim(int(head_dim)) {}

  void begin(Rows keys_in, std::int64_t /*keys*/, std::int64_t /*head_dim*/) { k = keys_in; }

  void scores(Rows q, std::int64_t rows, std::int64_t key_begin, std::int64_t keys, float* scores,
              std::int64_t stride) const {
    sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows), int(keys), dim, 1.0F, q.data,
          int(q.stride), k.data + key_begin * k.stride, int(k.stride), 0.0F, scores, int(stride));
  }

  void output(const float* weights, std::int64_t stride, std::int64_t rows, Rows v,
              std::int64_t keys, float* out, std::int64_t out_stride, bool add) const {
    sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, int(rows), dim, int(keys), 1.0F, weights,
          int(stride), v.data, int(v.stride), add ? 1.0F : 0.0F, out, int(out_stride));
  }

  decltype(&cblas_sgemm) sgemm = openblas().sgemm;
  int dim;
  bool failed = false;  // sgemm has no way to say so
  Rows k;
};

class OpenBlasPeer final : public Peer {
 public:
  std::string_view name() const noexcept override { return "openblas-q128"; }
  std::string version() const override {
    const OpenBlas& library = openblas();
    return library.error.empty() ? std::string(library.config()) + " on " + library.corename()
                                 : library.error;
  }
  std::string declines(const Problem& problem) const override {
    return openblas().error.empty() ? composition_declines(problem) : openblas().error;
  }
  std::unique_ptr<PeerRun> prepare(const Plan& plan, int threads) const override {
    return std::make_unique<Composition<OpenBlasGemm>>(plan, threads);
  }
};

}  // namespace

const Peer& openblas_peer() {
  static const OpenBlasPeer peer;
  return peer;
}

}  // namespace ragged::bench
