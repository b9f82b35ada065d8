// Targets whose tensors live in the CPU's memory. tests/gpu has a file like this one.

#include "backends/target.hpp"

namespace ragged::test {
namespace {

Problem usual_problem(DType dtype) {
  Problem problem;
  problem.num_qo_heads = 8;
  problem.num_kv_heads = 8;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  problem.dtype = dtype;
  return problem;
}

// True if the backend tiles for both sets alike in every dtype: it has one kernel for the two.
bool same_kernel(const Backend& backend, const DeviceFacts& a, const DeviceFacts& b) {
  const StepTotals totals = {1, 1024, 1024, 1024, 1024};
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const Problem problem = usual_problem(dtype);
    if (backend.tune(problem, a, totals).tiles != backend.tune(problem, b, totals).tiles) {
      return false;
    }
  }
  return true;
}

// Narrower instruction sets than this machine's own that the backend serves by other kernels.
void add_narrowed(std::vector<Target>& list, const Target& full) {
  for (const char* simd : {"scalar", "sse4", "avx2", "avx512", "amx", "neon", "sve"}) {
    DeviceFacts facts = DeviceFacts::parse(std::string("cpu:") + simd);
    if (!facts.present || facts.simd == full.facts.simd) continue;
    if (!full.backend->declines(usual_problem(DType::fp32), facts).empty()) continue;
    if (same_kernel(*full.backend, facts, full.facts)) continue;
    Target target = full;
    target.name += std::string("_") + simd;  // a "-" would end the names of a test filter
    target.facts = facts;
    target.narrowed = true;
    list.push_back(target);
  }
}

std::vector<Target> host_targets() {
  std::vector<Target> list;
  for (const Backend* backend : built_backends()) {
    const bool reference = backend->id() == RaggedAttnBackend::REFERENCE;
    if (!reference && backend->id() != RaggedAttnBackend::CPU) continue;
    Target target;
    target.name = backend->name();
    target.backend = backend;
    target.facts = DeviceFacts::host();
    target.memory = &host_memory();
    target.slow = reference;
    list.push_back(target);
    if (!reference) add_narrowed(list, target);
  }
  return list;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = host_targets();
  return list;
}

// Every build has a CPU to run on.
const std::vector<AbsentTarget>& absent_targets() {
  static const std::vector<AbsentTarget> none;
  return none;
}

}  // namespace ragged::test
