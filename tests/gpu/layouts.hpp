#pragma once

// Families of layouts of one shape, for tests that plan one after another on one wrapper.

#include <string>
#include <vector>

#include "backends/execute.hpp"

namespace ragged::test {

struct Family {
  std::string name;
  Ceilings ceilings;
  std::vector<Case> cases;  // of one kind, mask and shape; all within the ceilings
};

// Every kind and mask; each family has layouts without rows, without segments, and at the ceilings.
std::vector<Family> layout_families();

// A wrapper's options in capacity mode.
WrapperOptions capacity_options(const Target& target, const Family& family, DType dtype);

// What eager planning and running on a fresh wrapper gives.
Result eager_result(const Target& target, const Data& data);

// Offsets of a case on the host.
class HostOffsets {
 public:
  explicit HostOffsets(const Case& c);
  [[nodiscard]] StepOffsets views() const;

 private:
  std::vector<std::int64_t> q_, kv_, prefix_;
};

// One index tensor in a device's memory, which ends with its last entry.
class DeviceIndex {
 public:
  DeviceIndex(const std::vector<std::int64_t>& values, IndexForm form, Memory& memory);
  // As many values as at first, in the same place.
  void set(const std::vector<std::int64_t>& values);
  [[nodiscard]] IndexView view() const;

 private:
  Memory* memory_;
  IndexForm form_;
  std::int64_t count_;
  Buffer buffer_;
};

// Offsets of a case in a device's memory.
class DeviceOffsets {
 public:
  DeviceOffsets(const Case& c, IndexForm form, Memory& memory);
  [[nodiscard]] StepOffsets views() const { return {q_.view(), kv_.view(), prefix_.view()}; }

 private:
  DeviceIndex q_, kv_, prefix_;
};

}  // namespace ragged::test
