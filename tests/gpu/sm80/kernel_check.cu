// Checks the portable kernels alone, without plans: tables of units are made here by the cut rule,
// results are compared with double precision. `sm80_kernel_check` runs all cases, `... SEED` one
// random case; it needs a GPU.

#include <atomic>
#include <thread>

#include "gpu/sm80/step.cuh"

namespace {

struct RowResult {
  std::vector<double> out, weight;  // weight: sum of p |v|
  double lse = 0.0;
  double terms = 0.0;  // largest sum of |q k| * scale
};

RowResult row_truth(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& pk, const Tensor& pv, const std::int64_t begins[3], int s,
                    int row, int head) {
  const int prefix = c.prefix.empty() ? 0 : c.prefix[static_cast<std::size_t>(s)];
  const std::int64_t kv_len = c.kv[static_cast<std::size_t>(s)] + prefix;
  const std::int64_t end = ragged::visible_end({c.problem.causal, c.problem.block_size}, row,
                                               c.q[static_cast<std::size_t>(s)], kv_len);
  const int kv_head = head / (c.problem.num_qo_heads / c.problem.num_kv_heads);
  const int dim = c.problem.head_dim;
  RowResult r;
  r.out.assign(static_cast<std::size_t>(dim), 0.0);
  r.weight.assign(static_cast<std::size_t>(dim), 0.0);
  r.lse = -std::numeric_limits<double>::infinity();
  if (end == 0) return r;
  std::vector<double> scores(static_cast<std::size_t>(end));
  std::vector<double> query(static_cast<std::size_t>(dim));
  for (int d = 0; d < dim; ++d)
    query[static_cast<std::size_t>(d)] = q.get(begins[0] + row, head, d);
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < end; ++j) {
    const bool old = j < prefix;
    const Tensor& keys = old ? pk : k;
    const std::int64_t at = old ? begins[2] + j : begins[1] + j - prefix;
    double dot = 0.0;
    double terms = 0.0;
    for (int d = 0; d < dim; ++d) {
      const double one = query[static_cast<std::size_t>(d)] * keys.get(at, kv_head, d);
      dot += one;
      terms += std::abs(one);
    }
    scores[static_cast<std::size_t>(j)] = dot * c.problem.sm_scale;
    r.terms = std::max(r.terms, terms * std::abs(c.problem.sm_scale));
    top = std::max(top, scores[static_cast<std::size_t>(j)]);
  }
  double total = 0.0;
  for (double& score : scores) {
    score = std::exp(score - top);
    total += score;
  }
  for (std::int64_t j = 0; j < end; ++j) {
    const bool old = j < prefix;
    const Tensor& values = old ? pv : v;
    const std::int64_t at = old ? begins[2] + j : begins[1] + j - prefix;
    const double p = scores[static_cast<std::size_t>(j)] / total;
    for (int d = 0; d < dim; ++d) {
      const double x = values.get(at, kv_head, d);
      r.out[static_cast<std::size_t>(d)] += p * x;
      r.weight[static_cast<std::size_t>(d)] += p * std::abs(x);
    }
  }
  r.lse = top + std::log(total);
  return r;
}

// Number of failures, each printed in one line.
int check(const Case& c, unsigned seed) {
  std::mt19937 random(seed);
  const ragged::Problem& problem = c.problem;
  const int tail = 5;
  const DType dtype = problem.dtype;
  const int dim = problem.head_dim;
  Tensor q(dtype, sum(c.q), problem.num_qo_heads, dim, c.gap, c.offset, tail);
  Tensor out(dtype, sum(c.q), problem.num_qo_heads, dim, c.gap, c.offset, tail);
  Tensor k(dtype, sum(c.kv), problem.num_kv_heads, dim, c.gap, c.offset, tail);
  Tensor v(dtype, sum(c.kv), problem.num_kv_heads, dim, c.gap, c.offset, tail);
  Tensor pk(dtype, sum(c.prefix), problem.num_kv_heads, dim, 2 * c.gap, c.offset, tail);
  Tensor pv(dtype, sum(c.prefix), problem.num_kv_heads, dim, 2 * c.gap, c.offset, tail);
  q.fill(random, c.amplitude);
  for (Tensor* t : {&k, &v, &pk, &pv}) t->fill(random, 1.0F);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::int64_t kv_begin = 0;
  for (std::size_t s = 0; s < c.kv.size(); ++s) {
    for (std::int64_t j = kv_begin; j < kv_begin + c.kv[s]; ++j) {
      for (int h = 0; h < problem.num_kv_heads; ++h) {
        for (int d = 0; d < dim; ++d) {
          if (static_cast<int>(s) == c.poison_segment) {
            k.set(j, h, d, nan);
            v.set(j, h, d, nan);
          }
          if (s == 0 && j == c.nan_v_row) v.set(j, h, d, nan);
        }
      }
    }
    kv_begin += c.kv[s];
  }
  if (c.nan_q_row >= 0) {
    for (int h = 0; h < problem.num_qo_heads; ++h) {
      for (int d = 0; d < dim; ++d) q.set(c.nan_q_row, h, d, nan);
    }
  }
  for (Tensor* t : {&q, &k, &v, &pk, &pv, &out}) t->upload();
  const std::int64_t lse_size = q.tokens * problem.num_qo_heads;
  float* lse_data = nullptr;
  CHECK_CUDA(cudaMalloc(&lse_data, static_cast<std::size_t>(4 * lse_size)));
  int failures = 0;
  const auto fail = [&](const std::string& what) {
    if (++failures <= 3) {
      std::printf("FAIL %s (seed %u): %s\n", c.name.c_str(), seed, what.c_str());
    }
  };
  std::vector<char> first_out;
  std::vector<float> lse(static_cast<std::size_t>(lse_size));
  std::vector<float> first_lse;
  // Twice with slots and once without: bits must not differ.
  for (int round = 0; round < 3; ++round) {
    Case other = c;
    if (round == 2) other.slots = 0;
    Step step(other);
    device::AttentionArgs args = step.args;
    args.q = q.arg();
    args.k = k.arg();
    args.v = v.arg();
    args.out = out.arg();
    if (!c.prefix.empty()) {
      args.prefix_k = pk.arg();
      args.prefix_v = pv.arg();
    }
    args.lse = {lse_data, problem.num_qo_heads, 1};
    CHECK_CUDA(cudaMemset(out.data, 0xff, out.host.size()));
    CHECK_CUDA(cudaMemset(lse_data, 0xff, static_cast<std::size_t>(4 * lse_size)));
    step.launch(args, nullptr);
    CHECK_CUDA(cudaDeviceSynchronize());
    device::TableHeader header;
    CHECK_CUDA(cudaMemcpy(&header, args.table, sizeof(header), cudaMemcpyDeviceToHost));
    if (std::memcmp(&header, &step.table.header, sizeof(header)) != 0) fail("counters are left");
    out.download();
    CHECK_CUDA(cudaMemcpy(lse.data(), lse_data, static_cast<std::size_t>(4 * lse_size),
                          cudaMemcpyDeviceToHost));
    if (round == 0) {
      first_out = out.host;
      first_lse = lse;
    } else {
      if (out.host != first_out)
        fail(round == 1 ? "bits differ on repetition" : "bits differ without slots");
      if (std::memcmp(lse.data(), first_lse.data(), static_cast<std::size_t>(4 * lse_size)) != 0) {
        fail("bits of lse differ");
      }
    }
  }
  cudaFree(lse_data);
  // Nothing is written outside of live rows.
  {
    std::vector<char> live(out.host.size(), 0);
    for (std::int64_t t = 0; t < out.tokens - tail; ++t) {
      for (std::int64_t h = 0; h < out.heads; ++h) {
        std::memset(live.data() + out.index(t, h, 0) * out.size(), 1,
                    static_cast<std::size_t>(dim * out.size()));
      }
    }
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (live[i] == 0 && out.host[i] != static_cast<char>(0xff)) {
        fail("a byte outside of the rows was written: " + std::to_string(i));
        break;
      }
    }
  }
  struct Place {
    int s, row, head;
    std::int64_t begins[3];
  };
  std::vector<Place> places;
  std::int64_t begins[3] = {0, 0, 0};
  for (std::size_t s = 0; s < c.q.size(); ++s) {
    const int kv_len = c.kv[s] + (c.prefix.empty() ? 0 : c.prefix[s]);
    for (int row = 0; row < c.q[s]; ++row) {
      for (int head = 0; head < problem.num_qo_heads; ++head) {
        // Of large cases a sample, with the first and last rows.
        const double work = 1.0 * kv_len * dim * c.q[s] * problem.num_qo_heads;
        if (work > 3e7 && row > 1 && row + 2 < c.q[s] && random() % 1000 > 1000 * 3e7 / work) {
          continue;
        }
        if (static_cast<int>(s) == c.poison_segment) continue;
        places.push_back({static_cast<int>(s), row, head, {begins[0], begins[1], begins[2]}});
      }
    }
    begins[0] += c.q[s];
    begins[1] += c.kv[s];
    begins[2] += c.prefix.empty() ? 0 : c.prefix[s];
  }
  const double ulp = dtype == DType::bf16 ? 1.0 / 256 : dtype == DType::fp16 ? 1.0 / 2048 : 3e-7;
  std::atomic<std::size_t> next{0};
  std::vector<std::string> messages(places.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < places.size(); i = next++) {
      const Place& at = places[i];
      const RowResult want = row_truth(c, q, k, v, pk, pv, at.begins, at.s, at.row, at.head);
      const std::int64_t token = at.begins[0] + at.row;
      const std::string where = "segment " + std::to_string(at.s) + ", row " +
                                std::to_string(at.row) + ", head " + std::to_string(at.head);
      const double score_error = 4e-7 * want.terms;
      for (int d = 0; d < dim; ++d) {
        const double got = out.get(token, at.head, d);
        const double truth = want.out[static_cast<std::size_t>(d)];
        const double allowed =
            ulp * std::abs(truth) +
            (1.5 * ulp + 4 * score_error) * want.weight[static_cast<std::size_t>(d)] +
            (dtype == DType::fp16 ? 1e-7 : 1e-30);
        const bool right = std::isnan(truth) ? std::isnan(got) : std::abs(got - truth) <= allowed;
        if (!right) {
          messages[i] = where + ", dim " + std::to_string(d) + ": got " + std::to_string(got) +
                        ", want " + std::to_string(truth) + ", allowed " + std::to_string(allowed);
          break;
        }
      }
      const double got = lse[static_cast<std::size_t>(token * problem.num_qo_heads + at.head)];
      const double allowed = 3e-6 * std::max(1.0, std::abs(want.lse)) + 2 * score_error;
      const bool right = std::isfinite(want.lse) ? std::abs(got - want.lse) <= allowed
                         : std::isnan(want.lse)  ? std::isnan(got)
                                                 : got == want.lse;
      if (!right && messages[i].empty()) {
        messages[i] = where + ": lse " + std::to_string(got) + ", want " + std::to_string(want.lse);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& message : messages) {
    if (!message.empty()) fail(message);
  }
  if (failures > 3) std::printf("     ... %d in all of %zu rows\n", failures, places.size());
  return failures;
}

Case make(const std::string& name, DType dtype, int dim, int heads, int kv_heads) {
  Case c;
  c.name = name;
  c.problem.dtype = dtype;
  c.problem.head_dim = dim;
  c.problem.num_qo_heads = heads;
  c.problem.num_kv_heads = kv_heads;
  c.problem.sm_scale = 1.0 / std::sqrt(static_cast<double>(dim));
  return c;
}

Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const int dims[] = {8, 16, 32, 40, 64, 72, 80, 96, 104, 128, 136, 160, 192, 224, 256};
  const int groups[][2] = {{1, 1}, {2, 2},  {3, 3}, {4, 1}, {6, 2},
                           {7, 1}, {16, 1}, {5, 1}, {17, 1}};
  const DType dtypes[] = {DType::bf16, DType::bf16, DType::fp16, DType::fp32};
  const auto& group = groups[random() % 9];
  Case c = make("random", dtypes[random() % 4], dims[random() % 15], group[0], group[1]);
  const int mask = pick(0, 3);
  c.problem.causal = mask == 1;
  const bool bc = mask == 2;
  if (bc) {
    c.problem.kind = ragged::AttentionKind::block_causal;
    c.problem.block_size = pick(1, 100);
  }
  const bool prefixed = !bc && pick(0, 2) == 0;
  const bool cross = !bc && !prefixed && pick(0, 1) == 0;
  const int n = pick(1, 6);
  for (int s = 0; s < n; ++s) {
    const int scale = pick(0, 4);
    const int longest[] = {4, 64, 128, 400, 1500};
    c.q.push_back(pick(0, longest[scale]));
    c.kv.push_back(cross ? pick(0, longest[pick(0, 4)]) : c.q.back());
    if (prefixed) c.prefix.push_back(pick(0, longest[pick(0, 4)]));
  }
  if (pick(0, 9) == 0) {
    c.q.push_back(pick(1, 20));
    c.kv.push_back(cross ? pick(3000, 9000) : c.q.back());
    if (prefixed) c.prefix.push_back(pick(3000, 9000));
  }
  c.gap = pick(0, 2) * 8;
  if (pick(0, 3) == 0) c.gap = pick(0, 30);
  if (pick(0, 3) == 0) c.offset = pick(0, 9);
  const double scales[] = {1.0, 1.0, 1.0, -1.0, 0.0, 30.0, 0.01};
  c.problem.sm_scale *= scales[random() % 7];
  if (pick(0, 4) == 0 && n > 1) c.poison_segment = pick(0, n - 1);
  if (pick(0, 4) == 0 && c.q[0] > 0) c.nan_q_row = pick(0, c.q[0] - 1);
  if (pick(0, 4) == 0 && c.kv[0] > 0) c.nan_v_row = pick(0, c.kv[0] - 1);
  if (pick(0, 4) == 0) c.slots = pick(0, 40);
  c.name = std::string(to_string(c.problem.dtype)) + " D " + std::to_string(c.problem.head_dim);
  return c;
}

std::vector<Case> fixed_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    // Weights of 1 for the largest score, whatever its size.
    Case c = make("large scores", dtype, 64, 2, 2);
    c.q = {100, 1, 300};
    c.kv = c.q;
    c.amplitude = dtype == DType::fp16 ? 10000.0F : 1e6F;
    cases.push_back(c);
    c = make("no keys", dtype, 72, 2, 1);
    c.q = {5, 5, 200, 3};
    c.kv = {0, 7, 0, 1000};
    cases.push_back(c);
    c.name = "no visible keys";
    c.problem.causal = true;
    c.kv = {2, 0, 150, 1};
    cases.push_back(c);
    c = make("decode", dtype, 64, 20, 20);
    c.q.assign(8, 1);
    c.kv = {1500, 1, 700, 1499, 0, 64, 1500, 3};
    cases.push_back(c);
    c = make("prefix", dtype, 256, 8, 1);
    c.q = {50, 50, 51};
    c.kv = c.q;
    c.prefix = {816, 0, 300};
    cases.push_back(c);
    c = make("one long", dtype, 128, 4, 2);
    c.problem.causal = true;
    c.q = {2500};
    c.kv = c.q;
    cases.push_back(c);
    c = make("nan values", dtype, 64, 2, 2);
    c.problem.causal = true;
    c.q = {300};
    c.kv = c.q;
    c.nan_v_row = 200;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no GPU: skipped\n");
    return 77;
  }
  if (argc > 1 && std::string(argv[1]) != "random") {
    const auto seed = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
    return check(random_case(seed), seed) > 0 ? 1 : 0;
  }
  int failed = 0;
  int run = 0;
  const auto one = [&](const Case& c, unsigned seed) {
    if (!sm80::declines(c.problem).empty()) return;
    const ragged::TileTable table = sm80::tiles(c.problem, facts());
    if (sm80::prepare(sm80::rule_group(table, 0), table, c.problem.dtype, c.problem.head_dim) !=
        0) {
      return;
    }
    ++run;
    failed += check(c, seed) > 0 ? 1 : 0;
  };
  for (const Case& c : fixed_cases()) one(c, 1);
  const unsigned last = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 200;
  for (unsigned seed = 1; seed <= last && failed < 20; ++seed) one(random_case(seed), seed);
  std::printf("%d cases, %d failed\n", run, failed);
  return failed > 0 ? 1 : 0;
}
