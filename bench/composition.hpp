#pragma once

// Attention as two matrix products and a softmax for each block of query rows, generic in the
// library that multiplies. Keys beyond what a block can see are not computed.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include <ragged/error.hpp>

#include "backends/contract.hpp"
#include "bench/peers.hpp"
#include "bench/softmax_rows.hpp"
#include "visible.hpp"

namespace ragged::bench {

// A matrix of fp32 rows inside a packed tensor; `stride` in floats.
struct Rows {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

inline Rows rows_of(const TensorView& view, std::int64_t token, std::int64_t head) {
  return {static_cast<const float*>(view.row(token, head)), view.strides[0]};
}

// What a library brings. One object for each worker.
//   static constexpr std::int64_t kRowBlock, kKeyBlock;  // kKeyBlock a multiple of kScorePad
//   Gemm(std::int64_t max_keys, std::int64_t head_dim);
//   void begin(Rows k, std::int64_t keys, std::int64_t head_dim);  // the keys of the next products
//   void scores(Rows q, std::int64_t rows, std::int64_t key_begin, std::int64_t keys, float*
//   scores,
//               std::int64_t stride);                     // scores[rows][keys] = q x k^T
//   void output(const float* weights, std::int64_t stride, std::int64_t rows, Rows v,
//               std::int64_t keys, float* out, std::int64_t out_stride, bool add);
//   bool failed;  // set where a product could not be computed; no exception may leave a worker
template <typename Gemm>
class Composition final : public PeerRun {
 public:
  Composition(const Plan& plan, int threads) : plan_(plan), threads_(threads) {
    const Problem& problem = plan.problem;
    std::int64_t max_keys = 0;
    const std::int64_t segments = plan.layouts.q.num_segments();
    for (std::int64_t i = 0; i < segments; ++i) {
      max_keys = std::max(max_keys, plan.layouts.kv_length(i));
    }
    // One item is a whole segment of one head, so that a library that packs keys does it once;
    // where that leaves threads idle, ranges of rows.
    const bool split = segments * problem.num_qo_heads < 8 * threads;
    const std::int64_t range = split ? 512 : std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = 0; i < segments; ++i) {
      const std::int64_t rows = plan.layouts.q.length(i);
      for (int head = 0; head < problem.num_qo_heads; ++head) {
        for (std::int64_t row = 0; row < rows; row += std::min(range, rows)) {
          items_.push_back({i, row, std::min(rows, row + std::min(range, rows)), head});
        }
      }
    }
    // Under a mask the last rows are the longest: first out, so that no thread is left with them.
    std::stable_sort(items_.begin(), items_.end(),
                     [](const Item& a, const Item& b) { return a.row_begin > b.row_begin; });
    stride_ = (std::min(max_keys, Gemm::kKeyBlock) + kScorePad - 1) / kScorePad * kScorePad;
    for (int i = 0; i < threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(max_keys, problem.head_dim, stride_));
    }
  }

  void run(const RunArguments& arguments) override {
    if (arguments.lse.data != nullptr) {
      throw Error(ErrorCode::invalid_argument, "lse: a peer writes none; expected null");
    }
    arguments_ = &arguments;
    next_item_ = 0;
    Executor& executor = arguments.executor ? *arguments.executor : default_executor();
    executor.run(
        threads_, [](void* self, int worker) { static_cast<Composition*>(self)->work(worker); },
        this);
    for (const auto& worker : workers_) {
      if (worker->gemm.failed) {
        throw Error(ErrorCode::internal, "peer: its library made no kernel for a product's shape");
      }
    }
  }

 private:
  struct Item {
    std::int64_t segment, row_begin, row_end;
    int head;
  };
  struct Worker {
    Worker(std::int64_t max_keys, std::int64_t head_dim, std::int64_t stride)
        : gemm(max_keys, head_dim),
          scores(static_cast<std::size_t>(Gemm::kRowBlock * stride), 0.0F) {}
    Gemm gemm;
    std::vector<float> scores;
    RowState states[Gemm::kRowBlock];
    std::int64_t visible[Gemm::kRowBlock];
    float factors[Gemm::kRowBlock];
  };

  void work(int index) {
    Worker& worker = *workers_[static_cast<std::size_t>(index)];
    for (std::size_t i = next_item_++; i < items_.size(); i = next_item_++) {
      const Item& item = items_[i];
      const std::int64_t keys = plan_.layouts.kv_length(item.segment);
      const std::int64_t kv_head = item.head / plan_.problem.group();
      const std::int64_t kv_begin = plan_.layouts.keys().begin(item.segment);
      const Rows k = rows_of(arguments_->k, kv_begin, kv_head);
      const Rows v = rows_of(arguments_->v, kv_begin, kv_head);
      const Mask mask = mask_of(plan_.problem);
      worker.gemm.begin(
          k, visible_end(mask, item.row_end - 1, plan_.layouts.q.length(item.segment), keys),
          plan_.problem.head_dim);
      for (std::int64_t row = item.row_begin; row < item.row_end; row += Gemm::kRowBlock) {
        block(worker, item, row, std::min(Gemm::kRowBlock, item.row_end - row), mask, keys, v);
      }
    }
  }

  // `rows` query rows from `row` on, against every key that the last of them sees.
  void block(Worker& worker, const Item& item, std::int64_t row, std::int64_t rows,
             const Mask& mask, std::int64_t kv_length, Rows v) {
    const std::int64_t head_dim = plan_.problem.head_dim;
    const std::int64_t q_length = plan_.layouts.q.length(item.segment);
    const std::int64_t token = plan_.layouts.q.begin(item.segment) + row;
    const Rows q = rows_of(arguments_->q, token, item.head);
    float* out = static_cast<float*>(arguments_->out.row(token, item.head));
    const std::int64_t out_stride = arguments_->out.strides[0];
    const float scale = static_cast<float>(plan_.problem.sm_scale * std::numbers::log2e);
    const std::int64_t end = visible_end(mask, row + rows - 1, q_length, kv_length);

    for (std::int64_t i = 0; i < rows; ++i) worker.states[i] = {};
    for (std::int64_t key = 0; key < end; key += Gemm::kKeyBlock) {
      const std::int64_t keys = std::min(Gemm::kKeyBlock, end - key);
      for (std::int64_t i = 0; i < rows; ++i) {
        worker.visible[i] = std::clamp<std::int64_t>(
            visible_end(mask, row + i, q_length, kv_length) - key, 0, keys);
      }
      worker.gemm.scores(q, rows, key, keys, worker.scores.data(), stride_);
      softmax_rows(worker.scores.data(), stride_, rows, keys, worker.visible, scale, worker.states,
                   worker.factors);
      if (key > 0) scale_rows(out, out_stride, rows, head_dim, worker.factors);
      worker.gemm.output(worker.scores.data(), stride_, rows, {v.data + key * v.stride, v.stride},
                         keys, out, out_stride, key > 0);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      worker.factors[i] = worker.states[i].sum > 0.0F ? 1.0F / worker.states[i].sum : 0.0F;
    }
    scale_rows(out, out_stride, rows, head_dim, worker.factors);
  }

  const Plan& plan_;
  int threads_;
  std::int64_t stride_ = 0;
  std::vector<Item> items_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const RunArguments* arguments_ = nullptr;
  std::atomic<std::size_t> next_item_ = 0;
};

// Both peers multiply fp32 rows of a joined key tensor.
inline std::string composition_declines(const Problem& problem) {
  if (problem.dtype != DType::fp32) {
    return "dtype: expected fp32, got " + std::string(to_string(problem.dtype));
  }
  if (problem.two_sources) return "two_sources: expected joined keys, got two tensors";
  return {};
}

}  // namespace ragged::bench
