#pragma once

// What a wrapper on a GPU keeps beside its plans: the tables of its steps, one order of work for
// all streams, and what the device has found wrong with offsets that only it has read.

#include <array>
#include <string>

#include <ragged/wrappers.hpp>

#include "device/block.hpp"
#include "device/step_args.hpp"

namespace ragged::detail {

// Names of a step's offsets, as refusals use them: q, keys, prefix.
using OffsetNames = std::array<std::string, 3>;

// The refusal of a step at fault, in the words of Layout::assign_offsets and of the ceilings.
Error fault_error(const device::FaultReport& fault, const OffsetNames& names,
                  const WrapperOptions& options);

class DeviceSteps {
 public:
  static constexpr std::size_t kSlots = 4;  // one for each plan that a wrapper holds

  // `device` is present.
  explicit DeviceSteps(Device device);
  DeviceSteps(const DeviceSteps&) = delete;
  DeviceSteps& operator=(const DeviceSteps&) = delete;
  ~DeviceSteps();

  // Capacity mode: the slot's table, at an address that never changes.
  void make_table(std::size_t slot, std::size_t table_bytes);
  // What the stream does next comes after everything that this wrapper has begun.
  void enter(Stream stream) { order_.enter(stream); }
  // Makes the table of the plan. Precondition: enter(arguments.stream).
  void stage(std::size_t slot, const Plan& plan, StageArguments arguments, OffsetNames names);
  [[nodiscard]] StepTable table(std::size_t slot) const noexcept;

  // Throws a fault that nobody was told of, once.
  void throw_new_faults(const WrapperOptions& options);
  // Throws while the step in the slot is at fault.
  void throw_fault_of(std::size_t slot, const WrapperOptions& options);
  // Waits for the stream, and for what came before it on others.
  void synchronize(Stream stream);

 private:
  struct Slot {
    device::Block table;
    OffsetNames names;
    std::int64_t faults_told = 0;
    std::int32_t number = 0;  // of the step that was staged last
  };
  [[nodiscard]] device::FaultReport report(std::size_t slot) const noexcept;

  Device device_;
  device::StreamOrder order_;
  std::array<Slot, kSlots> slots_;
  volatile device::FaultReport* reports_ = nullptr;  // [kSlots], written by the device
};

}  // namespace ragged::detail
