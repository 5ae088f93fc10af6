#include "engine/pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nanolith {
namespace {

// A device whose steps take `fixed` and `row` microseconds a row.
struct Device {
    double fixed;
    double row;
    [[nodiscard]] double step(int32_t rows) const { return fixed + row * rows; }
};

int32_t settled(Pacer& pacer, const Device& device) {
    pacer.ran(1, 0, 2 * device.fixed);         // a conversation alone
    pacer.ran(2048, 2048, device.step(2048));  // a prefill alone
    int32_t rows = 0;
    for (int i = 0; i < 100; ++i) {
        rows = pacer.rows_beside_conversations();
        pacer.ran(rows, rows - 1, device.step(rows));
    }
    return rows;
}

TEST(Pacer, KeepsAStepWithinItsTime) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 200; ++i) {
        const Device device{static_cast<double>(random() % 4000), 5 + static_cast<double>(random() % 40)};
        const double milliseconds = 10 + static_cast<double>(random() % 40);
        Pacer pacer(milliseconds, 2048);
        const int32_t rows = settled(pacer, device);
        EXPECT_LE(device.step(rows), milliseconds * 1000 * 1.2) << device.fixed << " " << device.row;
        EXPECT_TRUE(rows >= 1900 || device.step(rows) >= milliseconds * 1000 * 0.45) << rows;
    }
}

TEST(Pacer, ByItselfItKeepsPrefillsFast) {
    // Reading weights takes 40 ms, half of it beside products: 25 ms would be over before any row.
    const Device device{20'000, 100};
    Pacer pacer(0, 2048);
    settled(pacer, device);
    double rows = 0;
    double time = 0;
    for (int i = 0; i < 20; ++i) {
        const int32_t next = pacer.rows_beside_conversations();
        rows += next;
        time += device.step(next);
        pacer.ran(next, next - 1, device.step(next));
    }
    const double alone = 2048 / device.step(2048);
    EXPECT_GE(rows / time, 0.88 * alone);
    EXPECT_LE(rows / time, 0.93 * alone);  // and no longer steps than that takes
}

TEST(Pacer, StepsBecomeShorterAsRowsBecomeDearer) {
    Pacer pacer(0, 2048);
    int32_t rows = 0;
    double worst = 0;
    for (int i = 0; i < 200; ++i) {
        const Device device{1500, 25 + 0.1 * i};  // keys in view grow
        rows = pacer.rows_beside_conversations();
        worst = std::max(worst, device.step(rows));
        pacer.ran(rows, rows - 1, device.step(rows));
    }
    EXPECT_LE(worst, 30'000);
}

TEST(Pacer, ByItselfAStepTakes25Milliseconds) {
    const Device device{100, 29};
    Pacer pacer(0, 2048);
    const double took = device.step(settled(pacer, device));
    EXPECT_LE(took, 30'000);
    EXPECT_GE(took, 13'000);
}

TEST(Pacer, PrefillsAloneAreCutOnSlowDevices) {
    Pacer fast(0, 2048);
    Pacer slow(0, 2048);
    for (int i = 0; i < 10; ++i) {
        fast.ran(fast.rows_alone(), fast.rows_alone(), Device{3000, 40}.step(fast.rows_alone()));
        slow.ran(slow.rows_alone(), slow.rows_alone(), Device{3000, 6000}.step(slow.rows_alone()));
    }
    EXPECT_EQ(fast.rows_alone(), 2048);
    EXPECT_EQ(slow.rows_alone(), 512);
    EXPECT_EQ(Pacer(0, 100).rows_alone(), 100);
}

}  // namespace
}  // namespace nanolith
