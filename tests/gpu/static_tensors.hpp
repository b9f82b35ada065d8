#pragma once

// Tensors at fixed addresses, as large as the ceilings, that take one layout's numbers after
// another: what a captured graph reads and writes.

#include <vector>

#include "backends/data.hpp"
#include "backends/step.hpp"

namespace ragged::test {

class StaticTensors {
 public:
  // Dense rows. With two sources, prefix and fresh keys each get room for all keys.
  StaticTensors(const Case& shape, DType dtype, const Ceilings& ceilings, Memory& memory);

  // Writes the numbers at the front of every tensor and NaN behind them and over all outputs. Waits
  // for the device.
  void load(const Data& data);
  // Without workspace and stream.
  [[nodiscard]] RunArguments arguments() const;
  // Waits for the device. Adds a failure where a row past the layout was written.
  [[nodiscard]] Result collect(const Data& data) const;

 private:
  struct Tensor {
    Buffer buffer;
    std::int64_t rows = 0;
    int heads = 0;
    int width = 0;  // elements of one head
    DType dtype = DType::fp32;
  };

  Tensor make(std::int64_t rows, int heads, int width, DType dtype);
  void write(const Tensor& tensor, const std::vector<float>& values);
  [[nodiscard]] TensorView view(const Tensor& tensor) const;
  [[nodiscard]] std::vector<std::uint32_t> read(const Tensor& tensor, std::int64_t rows,
                                                const char* name) const;

  Memory* memory_;
  bool two_sources_;
  Tensor q_, k_, v_, prefix_k_, prefix_v_, out_, lse_;
};

}  // namespace ragged::test
