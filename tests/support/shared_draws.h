// Random numbers that several threads draw from one sequence, without a lock.
#pragma once

#include <atomic>
#include <cstdint>

namespace nanolith::test {

// The next number of SplitMix64's sequence (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
// Before the first call `state` is the seed. Any number of threads may call it at once: each gets other numbers.
inline uint64_t next_draw(std::atomic<uint64_t>& state) {
    uint64_t x = state += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

}  // namespace nanolith::test
