// ragged bench: times named workloads.

#include <algorithm>
#include <iostream>
#include <memory>

#include "atomic_file.hpp"
#include "backends/contract.hpp"
#include "bench/machine.hpp"
#include "bench_gpu.hpp"
#include "bench_peers.hpp"
#include "bench_report.hpp"
#include "commands.hpp"
#include "execution.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "progress.hpp"

namespace ragged::tools {
namespace {

struct BenchOptions {
  std::string suite_name;
  std::vector<std::string> workloads;
  std::vector<int> threads;
  std::vector<RaggedAttnBackend> backends = {RaggedAttnBackend::AUTO};
  std::optional<std::string> simd;
  std::optional<DType> dtype;
  Device device;
  std::string json;
  std::optional<double> seconds;
  double most_gflop = 0;
  bool peers = false;
  bool one_set = false;
  bool huge_pages = false;
  bool list = false;
};

struct Step {
  Case c;
  int threads = 1;
  RaggedAttnBackend backend = RaggedAttnBackend::AUTO;
  bool peers = false;
};

void print_list() {
  for (const char* name : {"cpu", "models"}) {
    std::cout << name << ":\n";
    for (const Workload& workload : suite(name)) {
      std::cout << "  " << workload.name << ": " << case_of(workload).describe() << " ("
                << workload.model << ")\n";
    }
  }
}

std::vector<Case> cases_of(const BenchOptions& o) {
  if (o.suite_name.empty() == o.workloads.empty()) {
    throw Error(ErrorCode::invalid_argument,
                std::string("--suite or --workload: expected one of them, got ") +
                    (o.suite_name.empty() ? "neither" : "both"));
  }
  std::vector<Case> cases;
  if (!o.suite_name.empty()) {
    for (const Workload& workload : suite(o.suite_name)) cases.push_back(case_of(workload));
  }
  for (const std::string& name : o.workloads) cases.push_back(case_of(find_workload(name)));
  for (Case& c : cases) {
    if (o.dtype) c.problem.dtype = *o.dtype;
    // A GPU's users keep the frozen prefix where it is: joining it is what two sources spare.
    c.problem.two_sources = o.device.kind != DeviceKind::cpu && !c.prefix_lengths.empty();
  }
  return cases;
}

// Twice the last-level cache, and at most an eighth of the memory.
std::int64_t rotation(const bench::Machine& machine) {
  std::int64_t last_level = 0;
  for (const bench::Cache& cache : machine.caches) last_level = std::max(last_level, cache.bytes);
  return std::min(2 * last_level, machine.memory_bytes / 8);
}

DeviceFacts facts_of(const BenchOptions& o, int threads) {
  DeviceFacts facts = DeviceFacts::host(threads);
  if (!o.simd) return facts;
  return DeviceFacts::parse("cpu:" + *o.simd + ":" + std::to_string(facts.threads));
}

void expect_target_of_this_machine(const std::string& simd) {
  try {
    if (DeviceFacts::parse("cpu:" + simd).present) return;
  } catch (const Error&) {
    // No target at all: refused below like one of another machine.
  }
  throw Error(ErrorCode::invalid_argument,
              "--simd: expected a target that 'ragged info' lists, got '" + simd + "'");
}

// Our row and those of the built-in peers, or none where the workload is left out; says why.
std::vector<BenchRow> bench_step(const BenchOptions& o, const Step& step,
                                 const MeasureSettings& settings, Progress& progress) {
  const auto left_out = [&](const std::string& who, const std::string& why) {
    progress.clear();
    std::cout << step.c.name << who << ": left out: " << why << '\n';
  };
  Plan plan;
  try {
    make_plan(plan, step.c.problem, step.c.layouts(), facts_of(o, step.threads), built_backends(),
              step.backend);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    left_out("", error.what());
    return {};
  }
  if (o.most_gflop > 0 && plan.flops() > o.most_gflop * 1e9) {
    left_out("", "above --most-gflop");
    return {};
  }
  std::vector<BenchRow> rows;
  rows.push_back(measure(step.c, plan,
                         {.name = "ragged/" + plan.backend_name,
                          .version = "",
                          .run = [&plan](const RunArguments& arguments) { run(plan, arguments); }},
                         settings));
  if (!step.peers) return rows;
  for (const PeerProvider& peer : peers_for(plan)) {
    if (peer.declined.empty()) {
      rows.push_back(measure(step.c, plan, peer.provider, settings));
    } else {
      left_out(", " + peer.provider.name, peer.declined);
    }
  }
  return rows;
}

// Options that say nothing on a GPU are refused there.
int act_on_gpu(const BenchOptions& o) {
  const auto refuse = [](bool given, const char* option) {
    if (!given) return;
    throw Error(ErrorCode::invalid_argument,
                std::string(option) + ": expected --device cpu with it, got a GPU");
  };
  refuse(!o.threads.empty(), "--threads");
  refuse(o.simd.has_value(), "--simd");
  refuse(o.peers, "--peers");  // bench/peers_gpu.py adds them
  refuse(o.one_set, "--one-set");
  refuse(o.huge_pages, "--huge-pages");
  return bench_on_gpu({cases_of(o), o.backends, o.device, o.seconds, o.most_gflop, o.json});
}

int act(const BenchOptions& o) {
  if (o.list) {
    print_list();
    return 0;
  }
  if (o.device.kind != DeviceKind::cpu) return act_on_gpu(o);
  if (o.peers && o.json.empty() && !has_built_in_peers()) {
    throw Error(ErrorCode::invalid_argument,
                "--peers: expected --json with it, for Python's peers; this build has none of its "
                "own (RAGGED_BUILD_PEERS is off)");
  }
  if (!o.json.empty()) expect_writable(o.json);
  const bench::Machine machine = bench::Machine::read();
  const std::vector<int> threads =
      o.threads.empty() ? std::vector<int>{DeviceFacts::host().threads} : o.threads;
  std::vector<Step> steps;
  for (const Case& c : cases_of(o)) {
    for (const RaggedAttnBackend backend : o.backends) {
      // Peers take no backend of ours: once is enough.
      for (const int count : threads) {
        steps.push_back({c, count, backend, o.peers && backend == o.backends.front()});
      }
    }
  }
  MeasureSettings settings;
  settings.seconds = o.seconds.value_or(settings.seconds);
  settings.rotate_bytes = o.one_set ? 0 : rotation(machine);
  settings.huge_pages = o.huge_pages;
  prefer_huge_pages(o.huge_pages);

  const std::string machine_json = o.json.empty() ? "" : machine.to_json_with_probes();
  std::vector<BenchRow> rows;
  std::cout << table_heading();
  bool right = true;
  {
    Progress progress(static_cast<int>(steps.size()));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      progress.show(static_cast<int>(i), steps[i].c.name);
      for (const BenchRow& row : bench_step(o, steps[i], settings, progress)) {
        progress.clear();
        std::cout << table_line(row) << std::flush;
        // A peer that is wrong loses its row; ours ends the report.
        const bool ours = row.provider.starts_with("ragged/");
        right = right && (row.right() || !ours);
        if (row.right()) rows.push_back(row);
      }
    }
  }
  if (!right || rows.empty()) return 1;
  if (o.json.empty()) return 0;
  write_file(o.json, report_json(machine_json, settings, rows));
  if (o.peers) {
    const std::string missing = run_python_peers(o.json, rows, settings.seconds);
    if (!missing.empty()) std::cout << "Peers of Python left out: " << missing << '\n';
    if (!has_built_in_peers()) {
      std::cout << "Built-in peers left out: RAGGED_BUILD_PEERS is off\n";
    }
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& program) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* app = add_command(
      program, "bench", "Time workloads; every sample stands between two probes of the machine");
  const auto add = [&](const char* name, const char* type, const char* help, auto take) {
    add_value(*app, "", name, type, help, take);
  };
  add("--suite", "NAME", "cpu (W1 to W9) or models. Example: --suite cpu",
      [o](const std::string& text) {
        (void)suite(text);
        o->suite_name = text;
      });
  add("--workload", "LIST", "Workloads by name. Example: --workload W2,siglip-8",
      [o](const std::string& text) { o->workloads = split_list("--workload", text); });
  add("--device", "DEVICE", "cpu, cuda or cuda:N; cpu unless said. Example: --device cuda",
      [o](const std::string& text) {
        try {
          o->device = parse_device(text);
        } catch (const Error& error) {
          throw Error(error.code(), std::string("--device: ") + error.what());
        }
      });
  add("--threads", "LIST", "CPU threads, every core unless said. Example: --threads 1,2",
      [o](const std::string& text) {
        for (const std::string& part : split_list("--threads", text)) {
          o->threads.push_back(static_cast<int>(parse_integer("--threads", part, 1, 4096)));
        }
      });
  add("--dtype", "TYPE", "bf16, fp16 or fp32; the workload's unless said. Example: --dtype bf16",
      [o](const std::string& text) { o->dtype = read_dtype("--dtype", text); });
  add("--backend", "LIST", "Backends; the best unless said. Example: --backend cpu,reference",
      [o](const std::string& text) {
        o->backends.clear();
        for (const std::string& part : split_list("--backend", text)) {
          o->backends.push_back(read_backend("--backend", part));
        }
      });
  add("--simd", "TARGET", "A narrower SIMD target of this CPU. Example: --simd avx2",
      [o](const std::string& text) {
        expect_target_of_this_machine(text);
        o->simd = text;
      });
  add("--seconds", "S",
      "Of samples for each row, 1 unless said; on a GPU without a pause, 0.5. Example: --seconds "
      "0.2",
      [o](const std::string& text) {
        o->seconds = parse_number("--seconds", text);
        if (*o->seconds < 0) {
          throw Error(ErrorCode::invalid_argument,
                      "--seconds: expected a number of at least 0, got '" + text + "'");
        }
      });
  add("--most-gflop", "N", "Leave out workloads of more work. Example: --most-gflop 500",
      [o](const std::string& text) {
        o->most_gflop = static_cast<double>(parse_integer("--most-gflop", text, 1));
      });
  add("--json", "FILE", "Write machine, settings and rows. Example: --json cpu.json",
      [o](const std::string& text) { o->json = text; });
  add_flag(*app, "", "--peers",
           "Other libraries too: built-in ones and, with --json, Python's. Example: --peers",
           o->peers);
  add_flag(*app, "", "--one-set",
           "One set of inputs, left in the caches, instead of sets that rotate past them. Example: "
           "--one-set",
           o->one_set);
  add_flag(*app, "", "--huge-pages", "Ask for huge pages under the tensors. Example: --huge-pages",
           o->huge_pages);
  add_flag(*app, "", "--list", "List the workloads. Example: ragged bench --list", o->list);
  return {app, [o] { return act(*o); }};
}

}  // namespace ragged::tools
