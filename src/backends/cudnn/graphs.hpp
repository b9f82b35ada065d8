#pragma once

// cuDNN's graphs: built once for each key, kept for the life of the process, started on a stream.
// The only file behind this header includes cudnn-frontend.

#include <cstddef>
#include <string>

#include "backends/cudnn/arrays.hpp"
#include "backends/cudnn/shape.hpp"

namespace ragged::cudnn {

// Device addresses of a run.
struct Pointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // null: not asked for
  Arrays arrays;
  void* workspace = nullptr;  // aligned to 256 bytes
};

// What cuDNN says against the key on a GPU of that compute capability and size, by its own checks
// alone: no GPU is needed. Empty if nothing. Precondition: library() is here.
std::string validate_graph(const GraphKey& key, int sm_arch, int sm_count);

// Builds the graph on the current device, key.device, unless it is there. Allocates, may compile,
// and may be called while a stream is captured. Throws Error(unsupported) in cuDNN's words where it
// has no kernel for it or asks for more than `workspace_bytes`, Error(device) where it fails.
// Precondition: library() is here.
void build_graph(const GraphKey& key, std::size_t workspace_bytes);

// Starts the graph on the stream, building it first where it is not there. As build_graph().
void run_graph(const GraphKey& key, const Pointers& pointers, std::size_t workspace_bytes,
               void* stream);

}  // namespace ragged::cudnn
