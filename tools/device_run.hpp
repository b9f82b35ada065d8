#pragma once

// A case on a GPU: its tensors there, its step staged.

#include <vector>

#include <ragged/run.hpp>

#include "device/block.hpp"
#include "tensors.hpp"

namespace ragged::tools {

class DeviceRun {
 public:
  // `plan` is for a GPU that is present, and outlives this object.
  explicit DeviceRun(const Plan& plan);
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;
  ~DeviceRun();

  // One run, of inputs that are copied to the GPU where they are not those of the run before; the
  // microseconds that it takes there. `out` and `lse` fill the rows that no segment has.
  double run(const Inputs& inputs, const Tensor& out, const std::vector<float>& lse);
  // What the last run wrote.
  void fetch(Tensor& out, std::vector<float>& lse);

 private:
  void upload(const Inputs& inputs, const Tensor& out, const std::vector<float>& lse);

  const Plan& plan_;
  Device device_;
  device::Event begin_, end_;
  device::Block table_, workspace_;
  device::Block q_, k_, v_, prefix_k_, prefix_v_, out_, lse_;
  const std::byte* uploaded_ = nullptr;  // q of the inputs that are there
  RunArguments arguments_;
};

}  // namespace ragged::tools
