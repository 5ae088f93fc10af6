// The names by which callers ask for a device.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace nanolith {

enum class DeviceKind : uint8_t {
    automatic,  // the first GPU, or the CPU where there is none
    cpu,
    cuda
};

struct DeviceName {
    DeviceKind kind = DeviceKind::cpu;
    int32_t index = 0;  // of the GPU
};

// Whether "auto" is among the names that a caller may give.
enum class AutoDevice : uint8_t { refused, taken };

// "cpu", "cuda" (the first GPU), "cuda:N" and, where it is taken, "auto". INVALID_ARGUMENT for anything else.
Result<DeviceName> parse_device_name(std::string_view name, AutoDevice automatic);

}  // namespace nanolith
