#include "backend/cpu/read_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "backend/cpu/buffer.h"

namespace nanolith::cpu {

Result<double> measure_read_speed(ThreadPool& pool) {
    constexpr int64_t kWords = (int64_t{256} << 20) / static_cast<int64_t>(sizeof(uint64_t));
    constexpr int64_t kParts = 256;
    constexpr int64_t kPartWords = kWords / kParts;
    constexpr int kTurns = 3;
    NL_ASSIGN(auto words, Buffer<uint64_t>::allocate("memory whose reading is timed", {kWords}));
    NL_ASSIGN(auto sums, Buffer<uint64_t>::allocate("sums of what was read", {kParts}));
    // Pages that were never written may all be the same one.
    const auto cost = cost_of_bytes(kWords * static_cast<int64_t>(sizeof(uint64_t)));
    pool.run(kParts, cost, [&](int64_t part, int32_t) {
        std::fill_n(words.data() + part * kPartWords, kPartWords, static_cast<uint64_t>(part));
    });
    double best = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
        const auto begin = std::chrono::steady_clock::now();
        pool.run(kParts, cost, [&](int64_t part, int32_t) {
            const uint64_t* const from = words.data() + part * kPartWords;
            // Four runs at a time: of one alone a processor does not fetch as far ahead as it could.
            constexpr int64_t kRun = kPartWords / 4;
            uint64_t sum = 0;
            for (int64_t i = 0; i < kRun; ++i)
                sum += from[i] + from[kRun + i] + from[2 * kRun + i] + from[3 * kRun + i];
            sums.data()[part] = sum;  // so that the reads are not left out
        });
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        best = std::max(best, static_cast<double>(kWords * static_cast<int64_t>(sizeof(uint64_t))) / took.count());
    }
    return best;
}

}  // namespace nanolith::cpu
