#include "backends/sm90/tensor_maps.cuh"

#include <cuda_runtime.h>

namespace ragged::sm90 {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found at run time: the library links no driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                       cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return nullptr;
  }
  return reinterpret_cast<Encode>(function);
}

constexpr std::uint64_t kElementBytes = 2;

struct Dims {
  cuuint32_t rank;
  cuuint64_t size[4];
  cuuint64_t stride_bytes[3];
  cuuint32_t box[4];
};

bool encode(CUtensorMap& map, bool half, const device::TensorArg& tensor, int panel,
            const Dims& dims) {
  static const Encode function = find_encode();
  if (function == nullptr) return false;
  const CUtensorMapSwizzle swizzle = panel == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : panel == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                   : CU_TENSOR_MAP_SWIZZLE_32B;
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  // A tensor without rows is never read, but a map needs an address.
  alignas(16) static char nothing[16];
  void* const data = tensor.data == nullptr ? nothing : tensor.data;
  return function(&map, half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                  dims.rank, data, dims.size, dims.stride_bytes, dims.box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// A stride over one element, which may be anything, is any valid one.
cuuint64_t stride_bytes(std::int64_t elements, std::int64_t count) {
  return count > 1 ? static_cast<cuuint64_t>(elements) * kElementBytes : 16;
}
cuuint64_t at_least_one(std::int64_t count) {
  return static_cast<cuuint64_t>(count < 1 ? 1 : count);
}

bool encode_queries(CUtensorMap& map, const MapShape& shape, int panel, const device::TensorArg& q,
                    int heads) {
  return encode(map, shape.half, q, panel,
                {3,
                 {static_cast<cuuint64_t>(shape.head_dim), static_cast<cuuint64_t>(heads),
                  at_least_one(q.tokens)},
                 {stride_bytes(q.head_stride, heads), stride_bytes(q.token_stride, q.tokens)},
                 {static_cast<cuuint32_t>(panel), static_cast<cuuint32_t>(shape.query_heads),
                  static_cast<cuuint32_t>(shape.query_tokens)}});
}

// Rows of one panel. Order (column, token, head): the rows lie together.
bool encode_rows(CUtensorMap& map, const MapShape& shape, int panel, const device::TensorArg& k,
                 int heads) {
  return encode(map, shape.half, k, panel,
                {3,
                 {static_cast<cuuint64_t>(shape.head_dim), at_least_one(k.tokens),
                  static_cast<cuuint64_t>(heads)},
                 {stride_bytes(k.token_stride, k.tokens), stride_bytes(k.head_stride, heads)},
                 {static_cast<cuuint32_t>(panel), static_cast<cuuint32_t>(shape.keys), 1}});
}

// Rows of all whole panels. Order (panel's column, token, panel, head).
bool encode_panels(CUtensorMap& map, const MapShape& shape, const device::TensorArg& k, int heads) {
  const auto panel = static_cast<cuuint64_t>(shape.panel);
  const cuuint64_t panels = static_cast<cuuint64_t>(shape.head_dim) / panel;
  return encode(map, shape.half, k, shape.panel,
                {4,
                 {panel, at_least_one(k.tokens), panels, static_cast<cuuint64_t>(heads)},
                 {stride_bytes(k.token_stride, k.tokens), panel * kElementBytes,
                  stride_bytes(k.head_stride, heads)},
                 {static_cast<cuuint32_t>(panel), static_cast<cuuint32_t>(shape.keys),
                  static_cast<cuuint32_t>(panels), 1}});
}

bool make_query_maps(PanelMaps& maps, const MapShape& shape, const device::TensorArg& q,
                     int heads) {
  return encode_queries(maps.main, shape, shape.panel, q, heads) &&
         (shape.tail == 0 || encode_queries(maps.tail, shape, shape.tail, q, heads));
}

bool make_key_maps(PanelMaps& maps, const MapShape& shape, const device::TensorArg& k, int heads) {
  const bool made = shape.together ? encode_panels(maps.main, shape, k, heads)
                                   : encode_rows(maps.main, shape, shape.panel, k, heads);
  return made && (shape.tail == 0 || encode_rows(maps.tail, shape, shape.tail, k, heads));
}

}  // namespace

int make_maps(TensorMaps& maps, const MapShape& shape, const device::AttentionArgs& args) {
  bool made = make_query_maps(maps.q, shape, args.q, args.num_qo_heads) &&
              make_key_maps(maps.k, shape, args.k, args.num_kv_heads) &&
              make_key_maps(maps.v, shape, args.v, args.num_kv_heads);
  if (args.prefix_k.data != nullptr) {
    made = made && make_key_maps(maps.prefix_k, shape, args.prefix_k, args.num_kv_heads) &&
           make_key_maps(maps.prefix_v, shape, args.prefix_v, args.num_kv_heads);
  }
  return made ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace ragged::sm90
