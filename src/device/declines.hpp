#pragma once

// What GPU backends decline alike. Pure.

#include <string>

#include <ragged/plan.hpp>

namespace ragged::device {

// Why a backend of compute capabilities [least, most] (90 for 9.0) cannot serve on the device;
// empty if it can.
std::string declines_device(const DeviceFacts& device, int least, int most);

}  // namespace ragged::device
