// What the step loop counts for nl_engine_metrics. The engine's mutex guards it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "nanolith/nanolith.h"

namespace nanolith {

// How many observations were at most as large as each of kSize bounds, and how many in all.
template <size_t kSize>
class Histogram {
  public:
    // `bounds` ascend.
    explicit constexpr Histogram(const std::array<double, kSize>& bounds) : bounds_(bounds) {}

    void add(double value) noexcept {
        ++counts_[static_cast<size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
        sum_ += value;
    }
    [[nodiscard]] const std::array<double, kSize>& bounds() const { return bounds_; }
    // Observations above the bound before bound `i` and not above this one; `i` = kSize: above all bounds.
    [[nodiscard]] int64_t count(size_t i) const { return counts_[i]; }
    [[nodiscard]] double sum() const { return sum_; }

  private:
    std::array<double, kSize> bounds_;
    std::array<int64_t, kSize + 1> counts_{};
    double sum_ = 0;
};

struct LoopMetrics {
    // Of steps: from when the device could begin with one to when its results were there, and how many rows it had.
    Histogram<15> step_seconds{{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .02, .03, .05, .1, .25, .5, 1}};
    Histogram<12> step_rows{{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}};
    int64_t prefill_rows = 0;  // of all steps: rows of sequences with several rows in a step,
    int64_t decode_rows = 0;   // and all other rows
    // Of generations: from the start to the first token, and from each token to the next one.
    Histogram<15> first_token_seconds{{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}};
    Histogram<15> token_gap_seconds{{.0005, .001, .0025, .005, .01, .015, .02, .03, .05, .075, .1, .25, .5, 1, 2.5}};
    std::array<int64_t, NL_END_COMPLETE + 1> ended{};  // generations by why they ended, NL_END_*
};

}  // namespace nanolith
