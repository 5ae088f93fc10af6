// What is counted of the use of a store of chunks. The engine's mutex guards it.
#pragma once

#include <cstdint>

namespace nanolith {

struct StoreNumbers {
    // Chunks that were found there when they were asked for, and those that were computed.
    int64_t hits = 0, host_hits = 0, file_hits = 0, server_hits = 0;
    int64_t misses = 0;
    // Tokens of hits of all kinds, and of misses.
    int64_t tokens_reused = 0, tokens_computed = 0;
    // Chunks whose pages were copied to there: to the device's from a lower tier, to the others from the device's.
    int64_t device_moves = 0, host_moves = 0, file_moves = 0, server_moves = 0;
    double seconds_bringing = 0;  // what the first of these took
};

}  // namespace nanolith
