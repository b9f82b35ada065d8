// Targets whose tensors live in the CPU's memory. A device's tests bring a file like this one.

#include "backends/target.hpp"

namespace ragged::test {
namespace {

// Narrower instruction sets than this machine's own that the backend serves.
void add_narrowed(std::vector<Target>& list, const Target& full) {
  Problem usual;
  usual.num_qo_heads = 8;
  usual.num_kv_heads = 8;
  usual.head_dim = 64;
  usual.sm_scale = 0.125;
  for (const char* simd : {"scalar", "sse4", "avx2", "avx512", "amx", "neon", "sve"}) {
    DeviceFacts facts = DeviceFacts::parse(std::string("cpu:") + simd);
    if (!facts.present || facts.simd == full.facts.simd) continue;
    if (!full.backend->declines(usual, facts).empty()) continue;
    Target target = full;
    target.name += std::string("-") + simd;
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

}  // namespace ragged::test
