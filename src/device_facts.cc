// What this machine offers, and the facts of machines that are only named. Reads the operating
// system; decides nothing.

#include "device_facts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <fstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ragged {
namespace {

// Instruction sets that a CPU plan may name, each family from narrow to wide.
constexpr std::array<std::string_view, 5> kX86 = {"scalar", "sse4", "avx2", "avx512", "amx"};
constexpr std::array<std::string_view, 3> kArm = {"scalar", "neon", "sve"};

// Place of `simd` in its family, or -1.
template <std::size_t N>
int rank_in(const std::array<std::string_view, N>& family, std::string_view simd) noexcept {
  const auto found = std::find(family.begin(), family.end(), simd);
  return found == family.end() ? -1 : static_cast<int>(found - family.begin());
}

// A machine runs every set of its family up to its own widest.
bool runs_on(std::string_view simd, std::string_view widest) noexcept {
  const int x86 = rank_in(kX86, simd);
  const int arm = rank_in(kArm, simd);
  return (x86 >= 0 && x86 <= rank_in(kX86, widest)) || (arm >= 0 && arm <= rank_in(kArm, widest));
}

#if defined(__x86_64__) && defined(__linux__)
// The kernel hands out the tile registers of AMX only to a process that asks; asking twice is the
// same as once.
bool tiles_permitted() noexcept {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Leaf 7 of cpuid, edx: bf16 products on tiles, and the tiles themselves.
bool has_amx_bf16() noexcept {
  unsigned a = 7;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d & (1U << 22)) != 0 && (d & (1U << 24)) != 0;
}
#endif

std::string_view widest_simd() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
#if defined(__linux__)
  if (avx512 && has_amx_bf16() && tiles_permitted()) return "amx";
#endif
  if (avx512) return "avx512";
  if (avx2) return "avx2";
  // What the library's SSE4 kernels take: processors from Westmere on.
  const bool sse4 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
                    __builtin_cpu_supports("pclmul");
  return sse4 ? "sse4" : "scalar";
#elif defined(__ARM_FEATURE_SVE)
  return "sve";
#elif defined(__aarch64__)
  return "neon";
#else
  return "scalar";
#endif
}

// Cores that the scheduler lets this process use; 0 if it cannot be told.
int cores_by_affinity() {
#if defined(__linux__)
  // The kernel refuses a set smaller than its own, so grow until it fits.
  for (std::size_t cpus = 1024; cpus <= (1U << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) return 0;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  return 0;
}

// Whole cores of one control group's quota in `folder`, rounded up; 0 without a quota.
int quota_of(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");  // "max 100000" or "150000 100000", microseconds
  std::string quota;
  std::int64_t period = 0;
  if (!(file >> quota >> period) || period <= 0) return 0;
  std::int64_t limit = 0;
  const auto [end, error] = std::from_chars(quota.data(), quota.data() + quota.size(), limit);
  if (error != std::errc() || end != quota.data() + quota.size() || limit <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>((limit + period - 1) / period, 1 << 20));
}

// The tightest quota from this process's control group up to the root; 0 without one. Threads past
// a quota are stopped for whole periods, in the middle of a run.
int cores_by_quota() {
#if defined(__linux__)
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  std::string path;
  while (std::getline(groups, line)) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  int tightest = 0;
  const std::string root = "/sys/fs/cgroup";
  while (true) {
    const int cores = quota_of(root + path);
    if (cores > 0 && (tightest == 0 || cores < tightest)) tightest = cores;
    if (path.empty() || path == "/") return tightest;
    path.erase(path.find_last_of('/'));
  }
#else
  return 0;
#endif
}

int usable_cores() {
  int cores = cores_by_affinity();
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  const int quota = cores_by_quota();
  if (quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

// What the system reports if it is believable, else `otherwise`. Virtual machines report 0.
std::int64_t cache_bytes([[maybe_unused]] int level, std::int64_t least, std::int64_t most,
                         std::int64_t otherwise) noexcept {
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  const std::int64_t reported =
      sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
  if (reported >= least && reported <= most) return reported;
#endif
  return otherwise;
}

DeviceFacts gpu(std::string_view name, int sm_arch, int sm_count, std::int64_t smem_bytes,
                std::int64_t l1d_bytes, std::int64_t l2_bytes) {
  DeviceFacts facts;
  facts.device = {DeviceKind::cuda, 0};
  facts.name = name;
  facts.sm_arch = sm_arch;
  facts.sm_count = sm_count;
  facts.smem_bytes = smem_bytes;
  facts.l1d_bytes = l1d_bytes;
  facts.l2_bytes = l2_bytes;
  facts.present = false;
  return facts;
}

using detail::kMostThreads;

constexpr std::string_view kSimdNames = "scalar, sse4, avx2, avx512, amx, neon, sve";

bool is_simd(std::string_view name) noexcept {
  return rank_in(kX86, name) >= 0 || rank_in(kArm, name) >= 0;
}

[[noreturn]] void refuse_device(std::string_view text) {
  throw Error(ErrorCode::invalid_argument,
              "device must be cpu, cpu:SIMD, cpu:SIMD:THREADS (SIMD one of " +
                  std::string(kSimdNames) + "; THREADS 1 to " + std::to_string(kMostThreads) +
                  "), cuda, cuda:N, h200, h100 or a100; got '" + std::string(text) + "'");
}

std::atomic<GpuFacts> gpu_facts{nullptr};

}  // namespace

void set_gpu_facts(GpuFacts source) noexcept { gpu_facts.store(source); }

DeviceFacts DeviceFacts::of(Device device) {
  if (device.kind == DeviceKind::cpu) return host();
  if (const GpuFacts known = gpu_facts.load()) return known(device.index);
  DeviceFacts facts;
  facts.device = device;
  facts.name = ragged::to_string(device);
  facts.present = false;
  facts.absence = "this build has no CUDA";
  return facts;
}

void detail::check_cpu_facts(const DeviceFacts& facts) {
  if (facts.threads < 1 || facts.threads > kMostThreads) {
    throw Error(ErrorCode::invalid_argument, "threads of the device facts must be in 1.." +
                                                 std::to_string(kMostThreads) + "; got " +
                                                 std::to_string(facts.threads));
  }
  if (!is_simd(facts.simd)) {
    throw Error(ErrorCode::invalid_argument, "simd of the device facts must be one of " +
                                                 std::string(kSimdNames) + "; got '" + facts.simd +
                                                 "'");
  }
}

DeviceFacts DeviceFacts::host(int threads) {
  if (threads < 0) {
    throw Error(ErrorCode::invalid_argument,
                "threads must be at least 0; got " + std::to_string(threads));
  }
  constexpr std::int64_t kKiB = 1024;
  DeviceFacts facts;
  facts.name = "cpu";
  facts.simd = widest_simd();
  facts.threads = threads > 0 ? threads : usable_cores();
  facts.l1d_bytes = cache_bytes(1, 8 * kKiB, 1024 * kKiB, facts.l1d_bytes);
  facts.l2_bytes = cache_bytes(2, 128 * kKiB, 256 * kKiB * kKiB, facts.l2_bytes);
  return facts;
}

DeviceFacts DeviceFacts::parse(std::string_view text) {
  constexpr std::int64_t kKiB = 1024;
  constexpr std::int64_t kMiB = 1024 * kKiB;
  // Multiprocessors, shared memory that a block may opt in to, L1 and L2, as the vendor's SXM parts
  // report them.
  if (text == "h200") return gpu(text, 90, 132, 227 * kKiB, 256 * kKiB, 60 * kMiB);
  if (text == "h100") return gpu(text, 90, 132, 227 * kKiB, 256 * kKiB, 50 * kMiB);
  if (text == "a100") return gpu(text, 80, 108, 163 * kKiB, 192 * kKiB, 40 * kMiB);

  const std::size_t first = text.find(':');
  if (text.substr(0, first) == "cuda") {
    try {
      return of(parse_device(text));
    } catch (const Error&) {
      refuse_device(text);
    }
  }
  if (text.substr(0, first) != "cpu") refuse_device(text);
  DeviceFacts facts = host();
  if (first == std::string_view::npos) return facts;
  const std::string_view rest = text.substr(first + 1);
  const std::size_t second = rest.find(':');
  const std::string_view simd = rest.substr(0, second);
  if (!is_simd(simd)) refuse_device(text);
  facts.present = runs_on(simd, facts.simd);
  facts.simd = simd;
  if (second == std::string_view::npos) return facts;
  const std::string_view count = rest.substr(second + 1);
  const auto [end, error] =
      std::from_chars(count.data(), count.data() + count.size(), facts.threads);
  if (error != std::errc() || end != count.data() + count.size() || facts.threads < 1 ||
      facts.threads > kMostThreads) {
    refuse_device(text);
  }
  return facts;
}

std::string DeviceFacts::to_string() const {
  if (device.kind != DeviceKind::cpu) return name;
  return name + ":" + simd + ":" + std::to_string(threads);
}

}  // namespace ragged
