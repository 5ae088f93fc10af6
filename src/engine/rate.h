// How fast something was lately: to choose between reading a chunk and computing it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace nanolith {

class Rate {
  public:
    void add(int64_t tokens, double seconds) {
        const double now = seconds / static_cast<double>(std::max<int64_t>(1, tokens));
        seconds_a_token_ = samples_ == 0 ? now : kOld * seconds_a_token_ + (1 - kOld) * now;
        ++samples_;
    }
    // What so many tokens would take, once a few have been measured.
    [[nodiscard]] std::optional<double> seconds(int64_t tokens) const {
        if (samples_ < kEnough) return std::nullopt;
        return seconds_a_token_ * static_cast<double>(tokens);
    }

    // The same from the first measurement on: to be told, not to choose by.
    [[nodiscard]] std::optional<double> estimate(int64_t tokens) const {
        if (samples_ == 0) return std::nullopt;
        return seconds_a_token_ * static_cast<double>(tokens);
    }

  private:
    static constexpr double kOld = 0.75;  // what earlier samples weigh
    static constexpr int64_t kEnough = 3;
    double seconds_a_token_ = 0;
    int64_t samples_ = 0;
};

}  // namespace nanolith
