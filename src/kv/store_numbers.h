// What is counted of the use of a store of chunks, of all chunks or of those of one tenant.
#pragma once

#include <array>
#include <cstdint>

namespace nanolith {

struct StoreNumbers {
    // Chunks that were found there when they were asked for, and those that were computed.
    int64_t hits = 0, host_hits = 0, file_hits = 0, server_hits = 0;
    int64_t misses = 0;
    // Tokens of hits of all kinds, and of misses.
    int64_t tokens_reused = 0, tokens_computed = 0;
    // Chunks that were evicted from the device's pages.
    int64_t evictions = 0;
    // Chunks whose pages were copied to there: to the device's from a lower tier, to the others from the device's.
    int64_t device_moves = 0, host_moves = 0, file_moves = 0, server_moves = 0;
    double seconds_bringing = 0;  // what the first of these took
};

// Chunks of one level, and the pages that they have.
struct LevelCount {
    int64_t chunks = 0, pages = 0;

    void add(int64_t more_pages) {
        ++chunks;
        pages += more_pages;
    }
};
using LevelCounts = std::array<LevelCount, 3>;

inline LevelCount total(const LevelCounts& levels) {
    LevelCount all;
    for (const LevelCount& level : levels) {
        all.chunks += level.chunks;
        all.pages += level.pages;
    }
    return all;
}

}  // namespace nanolith
