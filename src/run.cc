#include <ragged/run.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/contract.hpp"

namespace ragged {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

// "k has 4 heads; the plan reads 2".
void require_equal(std::string_view argument, std::string_view what, std::int64_t came,
                   std::int64_t expected) {
  if (came == expected) return;
  refuse(std::string(argument) + " has " + std::string(what) + " " + std::to_string(came) +
         "; the plan has " + std::to_string(expected));
}

void require_rows(std::string_view argument, std::int64_t came, std::int64_t least,
                  std::string_view verb) {
  if (came >= least) return;
  refuse(std::string(argument) + " has " + std::to_string(came) + " rows; the plan " +
         std::string(verb) + " " + std::to_string(least));
}

void require_device(std::string_view argument, Device came, const Plan& plan) {
  const Device expected = plan.device.device;
  if (came == expected) return;
  refuse(std::string(argument) + " is on " + to_string(came) + "; the plan is for " +
         to_string(expected));
}

void require_data(std::string_view argument, const void* data, std::int64_t rows,
                  std::int64_t alignment) {
  if (rows > 0 && data == nullptr) {
    refuse(std::string(argument) + " has no data (null); the plan needs " + std::to_string(rows) +
           " rows");
  }
  const auto misplaced =
      reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment);
  if (rows > 0 && misplaced != 0) {
    refuse(std::string(argument) + " must be aligned to " + std::to_string(alignment) +
           " bytes; its address is " + std::to_string(misplaced) + " past a multiple");
  }
}

void check_tensor(const Plan& plan, std::string_view argument, const TensorView& tensor,
                  std::int64_t rows, std::int64_t heads, std::string_view verb) {
  require_rows(argument, tensor.shape[0], rows, verb);
  require_equal(argument, "heads", tensor.shape[1], heads);
  require_equal(argument, "head_dim", tensor.shape[2], plan.problem.head_dim);
  if (tensor.dtype != plan.problem.dtype) {
    refuse(std::string(argument) + " has dtype " + std::string(to_string(tensor.dtype)) +
           "; the plan has " + std::string(to_string(plan.problem.dtype)));
  }
  if (tensor.strides[2] != 1) {
    refuse(std::string(argument) + " must have stride 1 in head_dim; got " +
           std::to_string(tensor.strides[2]));
  }
  require_device(argument, tensor.device, plan);
  // Offsets that only a device has read may have segments in any row of the tensor.
  const std::int64_t touched = plan.layouts.known() ? rows : tensor.shape[0];
  require_data(argument, tensor.data, touched, size_bytes(tensor.dtype));
}

void check_lse(const Plan& plan, const LseView& lse, std::int64_t rows) {
  if (lse.data == nullptr) return;
  require_rows("lse", lse.shape[0], rows, "writes");
  require_equal("lse", "heads", lse.shape[1], plan.problem.num_qo_heads);
  require_device("lse", lse.device, plan);
  require_data("lse", lse.data, rows, alignof(float));
}

// Memory beside the tensors: the workspace, and the table of a staged step.
void check_memory(std::string_view argument, const void* data, std::size_t bytes,
                  std::size_t needed, std::uintptr_t alignment) {
  if (needed == 0) return;
  if (data == nullptr || bytes < needed) {
    const std::size_t came = data == nullptr ? 0 : bytes;
    refuse(std::string(argument) + " has " + std::to_string(came) + " bytes; the plan needs " +
           std::to_string(needed));
  }
  const auto misplaced = reinterpret_cast<std::uintptr_t>(data) % alignment;
  if (misplaced != 0) {
    refuse(std::string(argument) + " must be aligned to " + std::to_string(alignment) +
           " bytes; its address is " + std::to_string(misplaced) + " past a multiple");
  }
}

void check_memories(const Plan& plan, const Workspace& workspace, const StepTable& table) {
  const bool on_host = plan.device.device.kind == DeviceKind::cpu;
  check_memory("workspace", workspace.data, workspace.bytes, plan.workspace_bytes,
               on_host ? 64 : 256);
  check_memory("table", table.data, table.bytes, plan.table_bytes, 256);
}

// The view of a layout that the host has not read is the one that was planned.
void check_unread(const Plan& plan, std::string_view argument, const Layout& layout,
                  const IndexView& view) {
  if (layout.known()) return;
  require_device(argument, view.device, plan);
  if (view.data == nullptr || view.count != layout.num_segments() + 1) {
    refuse(std::string(argument) + " has " + std::to_string(view.data == nullptr ? 0 : view.count) +
           " entries; the plan has " + std::to_string(layout.num_segments() + 1));
  }
}

void check(const Plan& plan, const RunArguments& arguments) {
  const Problem& problem = plan.problem;
  const std::int64_t q_rows = plan.layouts.q.extent();
  const std::int64_t kv_rows = plan.layouts.keys().extent();
  const std::int64_t prefix_rows = plan.layouts.prefix.extent();
  check_tensor(plan, "q", arguments.q, q_rows, problem.num_qo_heads, "reads");
  check_tensor(plan, "k", arguments.k, kv_rows, problem.num_kv_heads, "reads");
  check_tensor(plan, "v", arguments.v, kv_rows, problem.num_kv_heads, "reads");
  check_tensor(plan, "out", arguments.out, q_rows, problem.num_qo_heads, "writes");
  if (problem.two_sources) {
    const int heads = problem.num_kv_heads;
    check_tensor(plan, "prefix_k", arguments.prefix_k, prefix_rows, heads, "reads");
    check_tensor(plan, "prefix_v", arguments.prefix_v, prefix_rows, heads, "reads");
  }
  check_lse(plan, arguments.lse, q_rows);
  check_memories(plan, arguments.workspace, arguments.table);
}

void require_planned(const Plan& plan, std::string_view action) {
  if (plan.backend != nullptr) return;
  throw Error(ErrorCode::not_planned,
              std::string(action) + " needs a plan that make_plan has filled; got an empty one");
}

void require_present(const Plan& plan) {
  if (plan.device.present) return;
  const std::string why = plan.device.absence.empty() ? "not the machine that this runs on"
                                                      : "not here: " + plan.device.absence;
  throw Error(ErrorCode::device,
              "the plan is for " + plan.device.to_string() + ", which is " + why);
}

// Whether a run has work. In capacity mode on a device it always starts: what it finds to do is in
// the table, and a captured graph must find its launches there.
bool has_work(const Plan& plan) {
  if (plan.num_units > 0) return true;
  if (!plan.backend->plans_on_device()) return false;
  return plan.ceilings || (!plan.layouts.known() && plan.layouts.q.num_segments() > 0);
}

// The callback, and a flag beside it that a run without one reads and nothing else.
using LogCallback = std::function<void(const RunRecord&)>;
std::atomic<bool> log_is_set{false};
std::mutex log_mutex;
std::shared_ptr<const LogCallback>& log_callback() {
  // Never destroyed: a run on another thread may outlive the end of main.
  static auto& callback = *new std::shared_ptr<const LogCallback>;
  return callback;
}

// The callback runs outside the lock, so that it may set another one.
void log(const Plan& plan, const RunArguments& arguments) {
  std::shared_ptr<const LogCallback> callback;
  {
    const std::lock_guard lock(log_mutex);
    callback = log_callback();
  }
  if (callback) (*callback)({&plan, &arguments});
}

}  // namespace

void set_run_log(std::function<void(const RunRecord&)> callback) {
  auto next = callback ? std::make_shared<const LogCallback>(std::move(callback)) : nullptr;
  const std::lock_guard lock(log_mutex);
  log_is_set.store(next != nullptr, std::memory_order_relaxed);
  log_callback().swap(next);
}

void run(const Plan& plan, const RunArguments& arguments) {
  require_planned(plan, "run");
  if (!has_work(plan)) return;
  require_present(plan);
  check(plan, arguments);
  const std::string reason = plan.backend->declines_tensors(plan, arguments);
  if (!reason.empty()) refuse(plan.backend_name + " declines: " + reason);
  if (log_is_set.load(std::memory_order_relaxed)) log(plan, arguments);
  plan.backend->run(plan, arguments);
}

void stage(const Plan& plan, const StageArguments& arguments) {
  require_planned(plan, "stage");
  if (plan.table_bytes == 0 || !has_work(plan)) return;
  require_present(plan);
  check_memories(plan, arguments.workspace, arguments.table);
  check_unread(plan, "q", plan.layouts.q, arguments.q);
  if (!plan.layouts.kv_is_q) check_unread(plan, "kv", plan.layouts.kv, arguments.kv);
  check_unread(plan, "prefix", plan.layouts.prefix, arguments.prefix);
  plan.backend->stage(plan, arguments);
}

}  // namespace ragged
