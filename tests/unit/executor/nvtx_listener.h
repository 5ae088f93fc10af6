// What the NVTX listener (nvtx_listener.cpp) tells: a profiler's place, taken by a library that NVTX loads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nanolith::testing {

struct ListenedRange {
    std::string domain;
    std::string name;
    int64_t payload = 0;
    int32_t depth = 0;  // ranges of the thread that were open when it began
};

// Its one function: moves all ranges that were begun since the call before, by any thread, to `taken`.
using TakeRanges = void (*)(std::vector<ListenedRange>& taken);
constexpr const char* kTakeRanges = "nvtx_listener_take";

}  // namespace nanolith::testing
