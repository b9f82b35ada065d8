#include "bench_peers.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "workloads.hpp"

#if defined(RAGGED_HAS_PEERS)
#include "bench/peers.hpp"
#endif

extern char** environ;

namespace ragged::tools {
namespace {

// The project's own virtual environment, where there is one; else what PATH has.
std::string python_program() {
  const std::string own = ".venv/bin/python";
  return std::filesystem::exists(own) ? own : "python3";
}

// Runs a program and waits. Its exit status; -1 where it could not be started.
int run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments.front(), nullptr, nullptr, arguments.data(), environ) != 0) {
    return -1;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

std::string joined(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

// The suite that a workload is from; suites share no names.
std::string suite_of(const std::string& workload) {
  for (const char* name : {"cpu", "models"}) {
    const auto& list = suite(name);
    if (std::any_of(list.begin(), list.end(),
                    [&](const Workload& w) { return w.name == workload; })) {
      return name;
    }
  }
  return "";
}

}  // namespace

bool has_built_in_peers() noexcept {
#if defined(RAGGED_HAS_PEERS)
  return true;
#else
  return false;
#endif
}

std::vector<PeerProvider> peers_for([[maybe_unused]] const Plan& plan) {
  std::vector<PeerProvider> peers;
#if defined(RAGGED_HAS_PEERS)
  for (const bench::Peer* peer : bench::built_peers()) {
    PeerProvider entry;
    entry.provider.name = peer->name();
    entry.declined = peer->declines(plan.problem);
    if (entry.declined.empty()) {
      entry.provider.version = peer->version();
      const std::shared_ptr<bench::PeerRun> ready = peer->prepare(plan, plan.device.threads);
      entry.provider.run = [ready](const RunArguments& arguments) { ready->run(arguments); };
    }
    peers.push_back(std::move(entry));
  }
#endif
  return peers;
}

std::string run_python_peers(const std::string& report, std::span<const BenchRow> rows,
                             double seconds) {
  const std::string script = "bench/peers_cpu.py";
  if (!std::filesystem::exists(script)) {
    return script + " is not here; to have them, start ragged in the project's folder";
  }
  // A suite's workloads of one dtype in one go.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> names;
  std::set<std::string> threads;
  for (const BenchRow& row : rows) {
    names[{suite_of(row.workload), std::string(to_string(row.dtype))}].insert(row.workload);
    threads.insert(std::to_string(row.threads));
  }
  for (const auto& [key, workloads] : names) {
    const auto& [suite_name, dtype] = key;
    const int status = run_program({python_program(), script, "--json", report, "--workloads",
                                    "bench/workloads/" + suite_name + ".json", "--names",
                                    joined(workloads), "--threads", joined(threads), "--dtypes",
                                    dtype, "--seconds", std::to_string(seconds)});
    if (status == -1) return python_program() + " could not be run";
    if (status == 2) return "Python lacks what bench/requirements-peers.txt names";
  }
  return "";
}

}  // namespace ragged::tools
