// Targets whose tensors live in the first GPU's memory: every GPU backend of the build.

#include "backends/target.hpp"
#include "gpu/cuda_memory.hpp"

namespace ragged::test {
namespace {

bool is_for_gpus(RaggedAttnBackend id) {
  switch (id) {
    case RaggedAttnBackend::SM80:
    case RaggedAttnBackend::SM90:
    case RaggedAttnBackend::FLASHINFER:
    case RaggedAttnBackend::CUDNN:
      return true;
    default:
      return false;
  }
}

// What every GPU backend serves.
Problem usual_problem() {
  Problem problem;
  problem.num_qo_heads = 8;
  problem.num_kv_heads = 8;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  return problem;
}

struct Found {
  std::vector<Target> targets;
  std::vector<AbsentTarget> absent;
};

Found find_targets() {
  Found found;
  const DeviceFacts facts = DeviceFacts::of({DeviceKind::cuda, 0});
  for (const Backend* backend : built_backends()) {
    if (!is_for_gpus(backend->id())) continue;
    const std::string name(backend->name());
    std::string reason = facts.absence;
    if (facts.present) reason = backend->declines(usual_problem(), facts);
    if (!reason.empty()) {
      found.absent.push_back({name, reason});
      continue;
    }
    Target target;
    target.name = name;
    target.backend = backend;
    target.facts = facts;
    target.memory = &cuda_memory(0);
    // The portable kernels are what every other GPU backend falls back to.
    target.may_decline = backend->id() != RaggedAttnBackend::SM80;
    target.may_refuse_alignment = true;
    if (backend->id() == RaggedAttnBackend::CUDNN) {
      target.extra_nodes = 3;  // our arrays, and what cuDNN starts before its kernel
      target.may_spread_nan = true;
    }
    if (backend->id() == RaggedAttnBackend::FLASHINFER) {
      target.extra_nodes = 32;  // copies of padded heads, a few key heads at a time
      target.may_spread_nan = true;
      target.needs_dense_out = true;
    }
    found.targets.push_back(target);
  }
  return found;
}

const Found& all() {
  static const Found found = find_targets();
  return found;
}

}  // namespace

const std::vector<Target>& targets() { return all().targets; }

const std::vector<AbsentTarget>& absent_targets() { return all().absent; }

}  // namespace ragged::test
