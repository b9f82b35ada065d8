#include "plan_runner_device.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace ragged::detail {
namespace {

std::string entry(const std::string& name, std::int64_t index, std::int64_t value) {
  return name + "[" + std::to_string(index) + "] = " + std::to_string(value);
}

// The ceiling that the last offset of an argument passed; none given: what a device can hold.
std::string beyond(const device::FaultReport& fault, const std::string& name,
                   const WrapperOptions& options) {
  const bool queries = fault.argument == 0;
  std::string_view ceiling = "max_total_tokens";
  if (!queries && options.max_total_kv_tokens) ceiling = "max_total_kv_tokens";
  if (fault.bound >= kMostDeviceRows) {
    return entry(name, fault.index, fault.value) + " is more than the largest offset on a GPU, " +
           std::to_string(fault.bound);
  }
  return name + ": " + std::to_string(fault.value) + (queries ? " tokens" : " key tokens") +
         " exceed " + std::string(ceiling) + " = " + std::to_string(fault.bound);
}

}  // namespace

Error fault_error(const device::FaultReport& fault, const OffsetNames& names,
                  const WrapperOptions& options) {
  const std::string& name = names.at(static_cast<std::size_t>(fault.argument));
  switch (fault.fault) {
    case device::OffsetFault::first_not_zero:
      return {ErrorCode::invalid_argument,
              name + "[0] must be 0; got " + std::to_string(fault.value)};
    case device::OffsetFault::falls:
      return {ErrorCode::invalid_argument, entry(name, fault.index, fault.value) +
                                               " is less than " +
                                               entry(name, fault.index - 1, fault.bound)};
    case device::OffsetFault::beyond_rows:
      return {ErrorCode::out_of_range, beyond(fault, name, options)};
    case device::OffsetFault::too_many_units:
      return {ErrorCode::out_of_range,
              "the step has " + std::to_string(fault.value) + " work units; without " +
                  "max_total_tokens, offsets on a device may make " + std::to_string(fault.bound)};
    case device::OffsetFault::none:
      break;
  }
  return {ErrorCode::internal, "the device reports a fault that has no name"};
}

DeviceSteps::DeviceSteps(Device device) : device_(device), order_(device) {
  for (Slot& slot : slots_) slot.table = device::Block(device);
  reports_ = static_cast<volatile device::FaultReport*>(
      device::room()->allocate_shared(device, kSlots * sizeof(device::FaultReport)));
}

DeviceSteps::~DeviceSteps() {
  device::room()->free_shared(device_, const_cast<device::FaultReport*>(reports_));
}

void DeviceSteps::make_table(std::size_t slot, std::size_t table_bytes) {
  slots_.at(slot).table.make(table_bytes);
}

void DeviceSteps::stage(std::size_t slot, const Plan& plan, StageArguments arguments,
                        OffsetNames names) {
  Slot& here = slots_.at(slot);
  // Powers of two keep steps that grow slowly from allocating each time.
  constexpr std::size_t kLeast = 65536;
  if (plan.table_bytes > here.table.bytes()) {
    here.table.grow(std::max(std::bit_ceil(plan.table_bytes), kLeast), arguments.stream);
  }
  arguments.table = table(slot);
  arguments.report = const_cast<device::FaultReport*>(reports_ + slot);
  // From 1 on, round and round: the device may still report an earlier step as the last it knows.
  arguments.number = here.number % std::numeric_limits<std::int32_t>::max() + 1;
  here.number = arguments.number;
  ragged::stage(plan, arguments);
  here.names = std::move(names);
}

StepTable DeviceSteps::table(std::size_t slot) const noexcept {
  return {slots_[slot].table.data(), slots_[slot].table.bytes()};
}

device::FaultReport DeviceSteps::report(std::size_t slot) const noexcept {
  const volatile device::FaultReport& there = reports_[slot];
  device::FaultReport copy;
  // The device counts last, so what is read after the count is at least as new.
  copy.count = there.count;
  copy.current = there.current;
  copy.fault = there.fault;
  copy.argument = there.argument;
  copy.index = there.index;
  copy.value = there.value;
  copy.bound = there.bound;
  return copy;
}

void DeviceSteps::throw_new_faults(const WrapperOptions& options) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (reports_[i].count == slots_[i].faults_told) continue;
    const device::FaultReport fault = report(i);
    slots_[i].faults_told = fault.count;
    throw fault_error(fault, slots_[i].names, options);
  }
}

void DeviceSteps::throw_fault_of(std::size_t slot, const WrapperOptions& options) {
  if (slots_[slot].number == 0 || reports_[slot].current != slots_[slot].number) return;
  const device::FaultReport fault = report(slot);
  slots_[slot].faults_told = fault.count;
  throw fault_error(fault, slots_[slot].names, options);
}

void DeviceSteps::synchronize(Stream stream) {
  order_.enter(stream);
  device::room()->synchronize(device_, stream);
}

}  // namespace ragged::detail
