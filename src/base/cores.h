// How many cores there are to work on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#if defined(__linux__)
#include <sched.h>
#endif

namespace nanolith {

// Cores that the process may run on, at least 1.
inline int32_t available_cores() {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    return static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace nanolith
