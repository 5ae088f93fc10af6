#include "backend/device_name.h"

#include <charconv>

namespace nanolith {
namespace {

// The N of "cuda:N", or -1.
int32_t cuda_index(std::string_view name) {
    constexpr std::string_view kPrefix = "cuda:";
    if (!name.starts_with(kPrefix)) return -1;
    int32_t index = -1;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, index);
    return error == std::errc() && rest == end ? index : -1;
}

}  // namespace

Result<DeviceName> parse_device_name(std::string_view name, AutoDevice automatic) {
    if (name == "auto" && automatic == AutoDevice::taken) return DeviceName{DeviceKind::automatic};
    if (name == "cpu") return DeviceName{DeviceKind::cpu};
    if (name == "cuda") return DeviceName{DeviceKind::cuda};
    const int32_t index = cuda_index(name);
    if (index >= 0) return DeviceName{DeviceKind::cuda, index};
    return fail(NL_ERROR_INVALID_ARGUMENT, "device is \"", name, "\": expected ",
                automatic == AutoDevice::taken ? "\"auto\", " : "", "\"cpu\", \"cuda\" or \"cuda:N\"");
}

}  // namespace nanolith
