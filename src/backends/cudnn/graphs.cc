#include "backends/cudnn/graphs.hpp"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "backends/cudnn/library.hpp"
#include "device/current_device.cuh"

// What the frontend finds cuDNN's functions in.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace ragged::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Names of a graph's tensors, in the order in which a run hands their addresses over.
enum Uid : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kQOffsets,
  kKOffsets,
  kVOffsets,
  kOutOffsets,
  kQLengths,
  kKvLengths,
  kLse,  // the last two only where an LSE is asked for
  kLseOffsets,
};
constexpr int kFewestTensors = 10;

// Turns what the frontend throws, such as a library it cannot load, into an Error of ours.
template <typename Call>
auto in_our_words(Call&& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::device, std::string("cuDNN: ") + error.what());
  }
}

void require(fe::error_t status, ErrorCode code, const char* what) {
  if (status.is_good()) return;
  throw Error(code, "cuDNN, " + std::string(what) + ": " + status.get_message());
}

void require(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorCode::device,
              "cuDNN, " + std::string(what) + ": " + fe::detail::get_error_string(status));
}

void use_library() {
  static const bool used = [] {
    fe::cudnn_dlhandle = library().handle;
    return true;
  }();
  static_cast<void>(used);
}

// Adds the tensors and the one operation. Shapes are [segments, heads, length, head_dim]; where a
// segment begins says its offset, not the first stride.
void describe(fe::graph::Graph& graph, const GraphKey& key) {
  graph.set_io_data_type(key.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto vector = [&](const char* name, Uid uid, std::int64_t count, fe::DataType_t type) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(uid)
                            .set_dim({count, 1, 1, 1})
                            .set_stride({1, 1, 1, 1})
                            .set_data_type(type));
  };
  const auto offsets = [&](const char* name, Uid uid) {
    return vector(name, uid, key.segments + 1, fe::DataType_t::INT64);
  };
  const auto lengths = [&](const char* name, Uid uid) {
    return vector(name, uid, key.segments, fe::DataType_t::INT32);
  };
  const auto input = [&](const char* name, Uid uid, std::int64_t heads, std::int64_t length,
                         const Strides& strides, const Tensor& begins) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(uid)
                            .set_dim({key.segments, heads, length, key.head_dim})
                            .set_stride({length * strides.token, strides.head, strides.token, 1})
                            .set_ragged_offset(begins));
  };
  const Tensor q =
      input("q", kQ, key.num_qo_heads, key.q_length, key.q, offsets("q_offsets", kQOffsets));
  const Tensor k =
      input("k", kK, key.num_kv_heads, key.kv_length, key.k, offsets("k_offsets", kKOffsets));
  const Tensor v =
      input("v", kV, key.num_kv_heads, key.kv_length, key.v, offsets("v_offsets", kVOffsets));
  auto attention = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(key.lse)
                       .set_attn_scale(key.sm_scale)
                       .set_padding_mask(true)
                       .set_seq_len_q(lengths("q_lengths", kQLengths))
                       .set_seq_len_kv(lengths("kv_lengths", kKvLengths));
  if (key.causal) {
    attention.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  }
  const auto [out, lse] = graph.sdpa(q, k, v, attention);
  out->set_output(true)
      .set_uid(kOut)
      .set_dim({key.segments, key.num_qo_heads, key.q_length, key.head_dim})
      .set_stride({key.q_length * key.out.token, key.out.head, key.out.token, 1})
      .set_ragged_offset(offsets("out_offsets", kOutOffsets));
  if (!key.lse) return;
  const Strides& strides = key.lse_strides;
  lse->set_output(true)
      .set_uid(kLse)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({key.segments, key.num_qo_heads, key.q_length, 1})
      .set_stride({key.q_length * strides.token, strides.head, strides.token, 1})
      .set_ragged_offset(offsets("lse_offsets", kLseOffsets));
}

// Graphs of every device, one handle for each. A handle serves one thread at a time.
class Graphs {
 public:
  // Precondition: the lock is held.
  const fe::graph::Graph& at(const GraphKey& key, std::size_t workspace_bytes) {
    const auto there = graphs_.find(key);
    if (there != graphs_.end()) return *there->second;
    return *graphs_.emplace(key, build(key, workspace_bytes)).first->second;
  }

  // Precondition: the lock is held, and the device is the current one.
  cudnnHandle_t handle(int device) {
    cudnnHandle_t& handle = handles_[device];
    if (handle == nullptr) {
      const device::OutsideCaptures outside;
      require(fe::detail::create_handle(&handle), "making a handle");
    }
    return handle;
  }

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  static Graphs& all() {
    // Never destroyed: graphs captured from a run may outlive the end of main.
    static Graphs& graphs = *new Graphs;
    return graphs;
  }

 private:
  std::unique_ptr<fe::graph::Graph> build(const GraphKey& key, std::size_t workspace_bytes) {
    const cudnnHandle_t handle = this->handle(key.device);
    const device::OutsideCaptures outside;
    auto graph = std::make_unique<fe::graph::Graph>();
    describe(*graph, key);
    constexpr ErrorCode kNotServed = ErrorCode::unsupported;
    require(graph->validate(), kNotServed, "validating a graph");
    require(graph->build_operation_graph(handle), kNotServed, "building a graph");
    require(graph->create_execution_plans({fe::HeurMode_t::A}), kNotServed, "choosing a kernel");
    require(graph->check_support(handle), kNotServed, "choosing a kernel");
    require(graph->build_plans(handle), ErrorCode::device, "building a kernel");
    std::int64_t needed = 0;
    require(graph->get_workspace_size(needed), ErrorCode::device, "the size of a workspace");
    if (needed > static_cast<std::int64_t>(workspace_bytes)) {
      throw Error(kNotServed, "cuDNN asks for a workspace of " + std::to_string(needed) +
                                  " bytes; the plan has " + std::to_string(workspace_bytes));
    }
    return graph;
  }

  std::mutex mutex_;
  std::map<int, cudnnHandle_t> handles_;
  std::map<GraphKey, std::unique_ptr<fe::graph::Graph>> graphs_;
};

// The addresses in the order of their names.
int in_order(const Pointers& p, void** list) {
  const void* const from[] = {p.q,
                              p.k,
                              p.v,
                              p.out,
                              p.arrays.q_offsets,
                              p.arrays.k_offsets,
                              p.arrays.v_offsets,
                              p.arrays.out_offsets,
                              p.arrays.q_lengths,
                              p.arrays.kv_lengths,
                              p.lse,
                              p.arrays.lse_offsets};
  const int count = p.lse == nullptr ? kFewestTensors : kFewestTensors + 2;
  for (int i = 0; i < count; ++i) list[i] = const_cast<void*>(from[i]);
  return count;
}

}  // namespace

std::string validate_graph(const GraphKey& key, int sm_arch, int sm_count) {
  use_library();
  return in_our_words([&] {
    fe::graph::Graph graph;
    graph.set_sm_version(sm_arch).set_sm_count(sm_count);
    describe(graph, key);
    fe::error_t status = graph.validate();
    return status.is_good() ? std::string() : status.get_message();
  });
}

void build_graph(const GraphKey& key, std::size_t workspace_bytes) {
  use_library();
  in_our_words([&] {
    Graphs& graphs = Graphs::all();
    const auto lock = graphs.lock();
    graphs.at(key, workspace_bytes);
  });
}

void run_graph(const GraphKey& key, const Pointers& pointers, std::size_t workspace_bytes,
               void* stream) {
  use_library();
  in_our_words([&] {
    Graphs& graphs = Graphs::all();
    const auto lock = graphs.lock();
    const fe::graph::Graph& graph = graphs.at(key, workspace_bytes);
    const cudnnHandle_t handle = graphs.handle(key.device);
    require(fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream)), "setting a stream");
    void* list[kFewestTensors + 2];
    const int count = in_order(pointers, list);
    require(graph.execute(handle, list, count, pointers.workspace), ErrorCode::device,
            "starting a graph");
  });
}

}  // namespace ragged::cudnn
