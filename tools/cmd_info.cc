// ragged info: what this build holds and what this machine offers.

#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ragged/version.hpp>
#include <set>

#include "backends/contract.hpp"
#include "bench/machine.hpp"
#include "commands.hpp"
#include "options.hpp"

namespace ragged::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<RaggedAttnBackend, 6> kBackends = {
    RaggedAttnBackend::CPU,  RaggedAttnBackend::REFERENCE, RaggedAttnBackend::SM90,
    RaggedAttnBackend::SM80, RaggedAttnBackend::CUDNN,     RaggedAttnBackend::FLASHINFER};
constexpr std::array<std::string_view, 7> kSimd = {"scalar", "sse4", "avx2", "avx512",
                                                   "amx",    "neon", "sve"};

const Backend* built(RaggedAttnBackend id) {
  for (const Backend* backend : built_backends()) {
    if (backend->id() == id) return backend;
  }
  return nullptr;
}

// An ordinary problem of one dtype, to ask a backend about.
Problem ordinary(DType dtype) {
  return {.kind = AttentionKind::self,
          .num_qo_heads = 8,
          .num_kv_heads = 8,
          .head_dim = 64,
          .sm_scale = 0.125,
          .dtype = dtype};
}

// {"name", "built", "serves": [dtypes], "lacks": [reasons]}.
Json describe(RaggedAttnBackend id, const DeviceFacts& facts) {
  Json serves = Json::array();
  std::set<std::string> lacks;
  const Backend* backend = built(id);
  if (backend == nullptr) {
    lacks.insert("not built; RAGGED_BACKENDS does not name it");
  } else {
    for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
      const std::string reason = backend->declines(ordinary(dtype), facts);
      if (reason.empty()) {
        serves.push_back(to_string(dtype));
      } else {
        lacks.insert(reason);
      }
    }
  }
  return {{"name", to_string(id)},
          {"built", backend != nullptr},
          {"serves", serves},
          {"lacks", Json(lacks)}};
}

// SIMD targets that this CPU has.
Json simd_targets() {
  Json targets = Json::array();
  for (const std::string_view simd : kSimd) {
    if (DeviceFacts::parse("cpu:" + std::string(simd)).present) targets.push_back(simd);
  }
  return targets;
}

Json collect() {
  const DeviceFacts host = DeviceFacts::host();
  const bench::Machine machine = bench::Machine::read();
  Json caches = Json::array();
  for (const bench::Cache& cache : machine.caches) {
    caches.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}});
  }
  Json backends = Json::array();
  for (const RaggedAttnBackend id : kBackends) backends.push_back(describe(id, host));
  // GPUs are numbered from 0; the first that is not there says why.
  Json gpus = Json::array();
  DeviceFacts gpu = DeviceFacts::of({DeviceKind::cuda, 0});
  const std::string absence = gpu.absence;
  for (int i = 0; gpu.present; gpu = DeviceFacts::of({DeviceKind::cuda, ++i})) {
    Json served = Json::array();
    for (const RaggedAttnBackend id : kBackends) {
      Json backend = describe(id, gpu);
      if (!backend["serves"].empty()) served.push_back(std::move(backend));
    }
    gpus.push_back({{"device", gpu.to_string()},
                    {"model", gpu.model},
                    {"sm_arch", gpu.sm_arch},
                    {"sm_count", gpu.sm_count},
                    {"smem_bytes", gpu.smem_bytes},
                    {"l2_bytes", gpu.l2_bytes},
                    {"backends", served}});
  }
  return {{"version", RAGGED_VERSION},
          {"compiler", machine.compiler},
          {"cpu", machine.model_name},
          {"device", host.to_string()},
          {"threads", host.threads},
          {"simd_targets", simd_targets()},
          {"memory_bytes", machine.memory_bytes},
          {"caches", caches},
          {"plans_for", {{"l1d_bytes", host.l1d_bytes}, {"l2_bytes", host.l2_bytes}}},
          {"backends", backends},
          {"gpus", gpus},
          {"no_gpu", absence.empty() ? Json(nullptr) : Json(absence)}};
}

std::string joined(const Json& list, const char* none) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : ", ") + item.get<std::string>();
  return text.empty() ? none : text;
}

std::string size_text(std::int64_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + " MiB"
                                : std::to_string(bytes >> 10) + " KiB";
}

void print(const Json& info) {
  std::cout << "ragged " << info["version"].get<std::string>() << ", "
            << info["compiler"].get<std::string>() << '\n'
            << "cpu       " << info["cpu"].get<std::string>() << ", " << info["threads"].get<int>()
            << " threads\n"
            << "device    " << info["device"].get<std::string>() << '\n'
            << "simd      " << joined(info["simd_targets"], "none") << '\n';
  std::string caches;
  for (const Json& cache : info["caches"]) {
    caches += (caches.empty() ? "L" : ", L") + std::to_string(cache["level"].get<int>()) + " " +
              size_text(cache["bytes"].get<std::int64_t>());
  }
  for (const Json& gpu : info["gpus"]) {
    std::string served;
    for (const Json& backend : gpu["backends"]) {
      served += (served.empty() ? "; " : ", ") + backend["name"].get<std::string>() + " serves " +
                joined(backend["serves"], "");
    }
    std::cout << "gpu       " << gpu["device"].get<std::string>() << ", "
              << gpu["model"].get<std::string>() << ", " << gpu["sm_count"].get<int>() << " SMs"
              << served << '\n';
  }
  if (!info["no_gpu"].is_null()) {
    std::cout << "gpu       none: " << info["no_gpu"].get<std::string>() << '\n';
  }
  std::cout << "caches    " << (caches.empty() ? "not reported" : caches) << '\n' << "backends\n";
  for (const Json& backend : info["backends"]) {
    std::string name = backend["name"].get<std::string>();
    name.resize(12, ' ');
    std::cout << "  " << name;
    if (!backend["serves"].empty()) std::cout << "serves " << joined(backend["serves"], "");
    if (!backend["serves"].empty() && !backend["lacks"].empty()) std::cout << "; ";
    if (!backend["lacks"].empty()) std::cout << joined(backend["lacks"], "");
    std::cout << '\n';
  }
}

}  // namespace

Command add_info(CLI::App& program) {
  CLI::App* app =
      add_command(program, "info",
                  "Show the version, each backend and what it lacks here, SIMD, threads, caches");
  auto json = std::make_shared<bool>(false);
  add_flag(*app, "", "--json", "As JSON. Example: ragged info --json", *json);
  return {app, [json] {
            const Json info = collect();
            if (*json) {
              std::cout << info.dump(1) << '\n';
            } else {
              print(info);
            }
            return 0;
          }};
}

}  // namespace ragged::tools
