// The clock that the engine measures and waits by.
#pragma once

#include <chrono>

namespace nanolith {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace nanolith
