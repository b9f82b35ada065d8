#include "device/declines.hpp"

namespace ragged::device {
namespace {

std::string capability(int arch) {
  return std::to_string(arch / 10) + "." + std::to_string(arch % 10);
}

}  // namespace

std::string declines_device(const DeviceFacts& device, int least, int most) {
  if (device.device.kind != DeviceKind::cuda) {
    return "device: serves NVIDIA GPUs; got " + device.to_string();
  }
  if (device.sm_arch == 0) {
    return "device: " + device.to_string() + " is not here: " + device.absence;
  }
  if (device.sm_arch >= least && device.sm_arch <= most) return {};
  return "device: serves compute capability " + capability(least) +
         (least == most ? "" : " and newer") + "; got " + capability(device.sm_arch);
}

}  // namespace ragged::device
