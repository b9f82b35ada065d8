// What stands around the kernel: planning, re-planning of an unchanged layout, the checks of a run,
// and waking the workers. Nanoseconds, median over samples.
//
//   ragged_plan_bench [--json FILE] [--most-segments N]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <ragged/ragged.hpp>

#include "bench/machine.hpp"

namespace ragged::bench {
namespace {

using clock = std::chrono::steady_clock;

struct Row {
  std::string operation;
  std::string kind;
  std::int64_t num_segments = 0;  // 0: not of a layout
  int threads = 1;
  double ns = 0, ns_min = 0, ns_max = 0;
};

// Median, least and most of one call of `action`, over samples of about 2 ms, for 60 ms in all.
Row timed(Row row, const std::function<void()>& action,
          const std::function<void()>& before = nullptr) {
  constexpr double kSampleNs = 2e6, kTotalNs = 6e7;
  const auto once = [&](std::int64_t calls) {
    if (before) before();
    const auto start = clock::now();
    for (std::int64_t i = 0; i < calls; ++i) action();
    return std::chrono::duration<double, std::nano>(clock::now() - start).count() /
           static_cast<double>(calls);
  };
  once(1);  // grows buffers, touches pages
  once(1);
  const auto calls =
      before ? 1 : std::max<std::int64_t>(1, static_cast<std::int64_t>(kSampleNs / once(1)));
  std::vector<double> samples;
  for (double total = 0; samples.size() < 5 || (total < kTotalNs && samples.size() < 200);) {
    samples.push_back(once(calls));
    total += samples.back() * static_cast<double>(calls);
  }
  std::sort(samples.begin(), samples.end());
  row.ns = samples[samples.size() / 2];
  row.ns_min = samples.front();
  row.ns_max = samples.back();
  return row;
}

void print(const Row& row) {
  std::printf("%-22s %-20s %8lld segments %2d threads %12.0f ns", row.operation.c_str(),
              row.kind.c_str(), static_cast<long long>(row.num_segments), row.threads, row.ns);
  if (row.num_segments > 0) {
    std::printf(" %8.1f ns/segment", row.ns / static_cast<double>(row.num_segments));
  }
  std::printf("  (%.0f to %.0f)\n", row.ns_min, row.ns_max);
  std::fflush(stdout);
}

// Offsets of segments of 1 to 64 tokens.
std::vector<std::int64_t> offsets(std::int64_t num_segments, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(num_segments));
  for (auto& length : lengths) length = 1 + static_cast<std::int64_t>(random() % 64);
  return offsets_from_lengths(lengths);
}

// a[i] + b[i]: keys joined behind a prefix.
std::vector<std::int64_t> joined(const std::vector<std::int64_t>& a,
                                 const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> sum(a.size());
  std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
  return sum;
}

WrapperOptions options(std::int64_t block_size = 0) {
  return {.num_qo_heads = 16,
          .num_kv_heads = 4,
          .head_dim = 64,
          .q_data_type = DType::fp32,
          .block_size = block_size,
          .threads = 1};
}

// One way to plan, on offsets q and kv.
struct Kind {
  std::string name;
  std::function<void(const std::vector<std::int64_t>& q, const std::vector<std::int64_t>& kv)> plan;
};

std::vector<Kind> kinds() {
  const auto self = std::make_shared<RaggedPrefillWrapper>(options());
  const auto cross = std::make_shared<RaggedCrossPrefillWrapper>(options());
  const auto prefixed = std::make_shared<PrefixedPrefillWrapper>(options());
  const auto blocks = std::make_shared<RaggedBlockCausalWrapper>(options(16));
  return {
      {"self", [=](const auto& q, const auto&) { self->plan(q); }},
      {"self, causal", [=](const auto& q, const auto&) { self->plan(q, true); }},
      {"cross", [=](const auto& q, const auto& kv) { cross->plan(q, kv); }},
      {"block_causal", [=](const auto& q, const auto&) { blocks->plan(q); }},
      {"prefixed", [=](const auto& q, const auto& kv) { prefixed->plan(q, kv); }},
      {"prefixed, causal", [=](const auto& q, const auto& kv) { prefixed->plan(q, kv, true); }},
      {"prefixed, two sources",
       [=](const auto& q, const auto& kv) { prefixed->plan_two_sources(q, kv); }},
  };
}

void plans(std::vector<Row>& rows, std::int64_t most_segments) {
  for (const Kind& kind : kinds()) {
    for (const std::int64_t n : {16, 64, 256, 1024, 4096, 16384, 65536, 131072}) {
      if (n > most_segments) break;
      const std::vector<std::int64_t> q[] = {offsets(n, 1), offsets(n, 2)};
      const std::vector<std::int64_t> kv[] = {joined(q[0], offsets(n, 3)),
                                              joined(q[1], offsets(n, 4))};
      std::size_t turn = 0;
      rows.push_back(timed({"plan", kind.name, n}, [&] {
        turn = 1 - turn;  // a layout other than the last one
        kind.plan(q[turn], kv[turn]);
      }));
      print(rows.back());
      rows.push_back(timed({"plan, unchanged", kind.name, n}, [&] { kind.plan(q[0], kv[0]); }));
      print(rows.back());
    }
  }
}

// A run's checks and start: no tokens, and one token of one head.
void runs(std::vector<Row>& rows) {
  WrapperOptions small = options();
  small.num_qo_heads = small.num_kv_heads = 1;
  small.head_dim = 8;
  RaggedPrefillWrapper wrapper(small);
  alignas(64) float data[4][8] = {};
  const auto view = [&](int i) { return TensorView::packed(data[i], DType::fp32, 1, 1, 8); };
  const TensorView q = view(0), k = view(1), v = view(2), out = view(3);
  wrapper.plan({0, 0});
  rows.push_back(timed({"run, no tokens", "self", 1}, [&] { wrapper.run(q, k, v, out); }));
  print(rows.back());
  wrapper.plan({0, 1});
  rows.push_back(timed({"run, one token", "self", 1}, [&] { wrapper.run(q, k, v, out); }));
  print(rows.back());
}

// Waking every worker of the process-wide pool for a task of no work, and waiting for all of them.
void dispatch(std::vector<Row>& rows) {
  Executor& executor = default_executor();
  const auto nothing = [](void*, int) {};
  for (int threads = 1; threads <= executor.concurrency(); threads *= 2) {
    const auto action = [&] { executor.run(threads, nothing, nullptr); };
    rows.push_back(timed({"dispatch, spinning", "", 0, threads}, action));
    print(rows.back());
    if (threads == 1) continue;
    // Long past the time that a waiting worker spins.
    rows.push_back(timed({"dispatch, sleeping", "", 0, threads}, action,
                         [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
    print(rows.back());
  }
}

std::string json(const std::vector<Row>& rows) {
  std::string out =
      "{\"ragged_version\": \"" RAGGED_VERSION "\",\n\"machine\": " + Machine::read().to_json() +
      ",\n\"rows\": [\n";
  for (const Row& row : rows) {
    char line[320];
    std::snprintf(line, sizeof line,
                  "%s  {\"operation\": \"%s\", \"kind\": \"%s\", \"num_segments\": %lld, "
                  "\"threads\": %d, \"ns\": %.1f, \"ns_min\": %.1f, \"ns_max\": %.1f}",
                  &row == rows.data() ? "" : ",\n", row.operation.c_str(), row.kind.c_str(),
                  static_cast<long long>(row.num_segments), row.threads, row.ns, row.ns_min,
                  row.ns_max);
    out += line;
  }
  return out + "\n]}\n";
}

int main_of(int argc, char** argv) {
  std::string file;
  std::int64_t most_segments = 131072;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json" && i + 1 < argc) {
      file = argv[++i];
    } else if (name == "--most-segments" && i + 1 < argc) {
      most_segments = std::atoll(argv[++i]);
    } else {
      most_segments = 0;
    }
    if (most_segments < 16) {
      std::fprintf(stderr, "usage: ragged_plan_bench [--json FILE] [--most-segments N]; N >= 16\n");
      return 2;
    }
  }
  std::vector<Row> rows;
  runs(rows);
  dispatch(rows);
  plans(rows, most_segments);
  if (file.empty()) return 0;
  std::ofstream stream(file);
  stream << json(rows);
  stream.close();
  if (!stream) std::fprintf(stderr, "ragged_plan_bench: cannot write %s\n", file.c_str());
  return stream ? 0 : 1;
}

}  // namespace
}  // namespace ragged::bench

int main(int argc, char** argv) {
  try {
    return ragged::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ragged_plan_bench: %s\n", error.what());
    return 1;
  }
}
