#include "backend/device_name.h"

#include <gtest/gtest.h>

#include <string>

namespace nanolith {
namespace {

TEST(DeviceName, IsReadWhole) {
    struct Case {
        const char* name;
        DeviceKind kind;
        int32_t index;
    };
    for (const Case& c : {Case{"auto", DeviceKind::automatic, 0}, Case{"cpu", DeviceKind::cpu, 0},
                          Case{"cuda", DeviceKind::cuda, 0}, Case{"cuda:0", DeviceKind::cuda, 0},
                          Case{"cuda:3", DeviceKind::cuda, 3}, Case{"cuda:2147483647", DeviceKind::cuda, 2147483647}}) {
        const auto device = parse_device_name(c.name, AutoDevice::taken);
        ASSERT_TRUE(device.ok()) << c.name;
        EXPECT_EQ(device->kind, c.kind) << c.name;
        EXPECT_EQ(device->index, c.index) << c.name;
    }
}

TEST(DeviceName, OthersAreRefusedWithWhatWasExpected) {
    for (const char* name : {"", "CPU", "cpu ", " cpu", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:+1",
                             "cuda:2147483648", "cuda3", "autos"}) {
        for (const AutoDevice automatic : {AutoDevice::taken, AutoDevice::refused}) {
            const auto device = parse_device_name(name, automatic);
            ASSERT_FALSE(device.ok()) << name;
            EXPECT_EQ(device.error().status, NL_ERROR_INVALID_ARGUMENT) << name;
            EXPECT_EQ(device.error().message, "device is \"" + std::string(name) + "\": expected " +
                                                  (automatic == AutoDevice::taken ? "\"auto\", " : "") +
                                                  "\"cpu\", \"cuda\" or \"cuda:N\"");
        }
    }
}

TEST(DeviceName, AutoIsRefusedWhereACallerMustName) {
    const auto device = parse_device_name("auto", AutoDevice::refused);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().message, "device is \"auto\": expected \"cpu\", \"cuda\" or \"cuda:N\"");
}

}  // namespace
}  // namespace nanolith
