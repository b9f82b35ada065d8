#include "bench/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>

#include "bench/fma_probe.hpp"
#include "bench/probe_loops.hpp"
#include "bench/read_probe.hpp"

namespace ragged::bench {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t");
  const auto end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// The first core's entry of /proc/cpuinfo. x86 and Arm kernels name the fields differently.
void read_cpuinfo(Machine& machine) {
  const std::pair<const char*, std::string Machine::*> fields[] = {
      {"vendor_id", &Machine::vendor},        {"CPU implementer", &Machine::vendor},
      {"model name", &Machine::model_name},   {"cpu family", &Machine::family},
      {"CPU architecture", &Machine::family}, {"model", &Machine::model},
      {"CPU part", &Machine::model},          {"stepping", &Machine::stepping},
      {"CPU revision", &Machine::stepping},   {"flags", &Machine::flags},
      {"Features", &Machine::flags},
  };
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = trimmed(line.substr(0, colon));
    for (const auto& [field, member] : fields) {
      if (name == field) machine.*member = trimmed(line.substr(colon + 1));
    }
  }
  machine.hypervisor = (" " + machine.flags + " ").find(" hypervisor ") != std::string::npos;
}

// "48K", "32M" or plain bytes.
std::int64_t parse_size(const std::string& text) {
  std::int64_t value = 0;
  std::size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
    value = value * 10 + (text[i] - '0');
  if (i < text.size() && text[i] == 'K') return value << 10;
  if (i < text.size() && text[i] == 'M') return value << 20;
  return value;
}

std::vector<Cache> read_caches() {
  std::vector<Cache> caches;
  for (int index = 0;; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = first_line(folder + "type");
    if (type.empty()) return caches;
    if (type == "Instruction") continue;
    caches.push_back({static_cast<int>(parse_size(first_line(folder + "level"))), type,
                      parse_size(first_line(folder + "size"))});
  }
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// {"1": rate, "8": rate} for one thread and for all cores; the best of five, since a busy
// neighbour only ever takes away.
std::string by_threads(int cores, const std::function<double(int)>& measure) {
  std::string out = "{";
  for (const int threads : cores == 1 ? std::vector<int>{1} : std::vector<int>{1, cores}) {
    double best = 0.0;
    for (int i = 0; i < 5; ++i) best = std::max(best, measure(threads));
    out += (threads == 1 ? "" : ", ") + quoted(std::to_string(threads)) + ": " + rounded(best);
  }
  return out + "}";
}

}  // namespace

Machine Machine::read() {
  Machine machine;
  read_cpuinfo(machine);
  machine.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  utsname names = {};
  if (uname(&names) == 0) machine.kernel = std::string(names.sysname) + " " + names.release;
#if defined(__clang__)
  machine.compiler = __VERSION__;
#else
  machine.compiler = "GCC " __VERSION__;
#endif
  cpu_set_t usable;
  machine.cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  machine.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
  machine.caches = read_caches();
  machine.simd = best_fp32_simd();
  return machine;
}

std::string Machine::to_json() const {
  std::string out = "{";
  const auto text = [&](const char* name, const std::string& value) {
    out += quoted(name) + ": " + (value.empty() ? "null" : quoted(value)) + ", ";
  };
  text("vendor", vendor);
  text("model_name", model_name);
  text("family", family);
  text("model", model);
  text("stepping", stepping);
  text("flags", flags);
  text("governor", governor);
  text("kernel", kernel);
  text("compiler", compiler);
  text("simd", simd);
  out += "\"hypervisor\": " + std::string(hypervisor ? "true" : "false");
  out += ", \"cores\": " + std::to_string(cores);
  out += ", \"memory_bytes\": " + std::to_string(memory_bytes);
  out += ", \"caches\": [";
  for (std::size_t i = 0; i < caches.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::string("{\"level\": ") + std::to_string(caches[i].level) +
           ", \"type\": " + quoted(caches[i].type) +
           ", \"bytes\": " + std::to_string(caches[i].bytes) + "}";
  }
  return out + "]}";
}

std::string Machine::to_json_with_probes() const {
  std::string out = to_json();
  out.pop_back();  // the closing brace: more fields follow

  std::string peaks, kernels;
  for (const ProbeLoop& loop : probe_loops()) {
    if (!loop.supported()) continue;
    const std::string name = (peaks.empty() ? "" : ", ") + quoted(std::string(loop.simd)) + ": ";
    peaks += name + by_threads(cores, [&](int n) { return fma_peak_gflops(loop.simd, n); });
    if (loop.kernel == nullptr) continue;
    kernels += (kernels.empty() ? "" : ", ") + quoted(std::string(loop.simd)) + ": " +
               by_threads(cores, [&](int n) { return kernel_loop_gflops(loop.simd, n); });
  }
  out += ", \"fma_peak_gflops\": {" + peaks + "}, \"kernel_loop_gflops\": {" + kernels + "}";

  out += ", \"read_gbps\": {";
  // Inside the second-level cache of most cores, of most processors' last level, and beyond.
  const std::int64_t sizes[] = {256 << 10, 16 << 20, 256 << 20};
  for (const std::int64_t& bytes : sizes) {
    out += (&bytes == sizes ? "" : ", ") + quoted(std::to_string(bytes)) + ": " +
           by_threads(cores, [bytes](int n) { return ReadProbe(bytes, n).measure_gbps(); });
  }
  return out + "}}";
}

std::string machine_json() { return Machine::read().to_json_with_probes(); }

}  // namespace ragged::bench
