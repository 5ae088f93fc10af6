// Stands in for cuda/device/mbarrier.cuh, for barriers of one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "device/ring_position.cuh"

namespace nanolith::cuda {

namespace emulated {

// What the emulation keeps in a barrier's 64 bits. A phase is complete when no arrivals and no bytes are missing.
struct Barrier {
    uint16_t arrivals;          // of a phase
    uint16_t missing_arrivals;  // in the phase that is not complete yet
    uint32_t phase : 1;         // its parity
    int32_t missing_bytes : 31;
};
static_assert(sizeof(Barrier) == sizeof(uint64_t));

inline Barrier read(const uint64_t* barrier) {
    Barrier state{};
    std::memcpy(&state, barrier, sizeof state);
    return state;
}

inline void change(uint64_t* barrier, int arrivals, int bytes) {
    Barrier state = read(barrier);
    state.missing_arrivals = static_cast<uint16_t>(state.missing_arrivals - arrivals);
    state.missing_bytes += bytes;
    if (state.missing_arrivals == 0 && state.missing_bytes == 0) {
        state.missing_arrivals = state.arrivals;
        state.phase ^= 1U;
    }
    std::memcpy(barrier, &state, sizeof state);
}

// The copy engine has copied so many bytes on the barrier.
inline void complete_bytes(uint64_t* barrier, uint64_t bytes) {
    change(barrier, 0, -static_cast<int>(bytes));
}

}  // namespace emulated

// The emulated address of shared memory: its distance from the beginning of the block's dynamic shared memory.
inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(static_cast<const std::byte*>(pointer) - cuda_host::shared_memory());
}

inline void barrier_init(uint64_t* barrier, uint32_t arrivals) {
    const auto count = static_cast<uint16_t>(arrivals);
    const emulated::Barrier state{count, count, 0, 0};
    std::memcpy(barrier, &state, sizeof state);
}
inline void fence_barrier_init() {}
inline void barrier_arrive(uint64_t* barrier) {
    emulated::change(barrier, 1, 0);
}
inline void barrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
    emulated::change(barrier, 1, static_cast<int>(bytes));
}
inline void barrier_wait(uint64_t* barrier, uint32_t parity, const char*) {
    cuda_host::wait_until([=] { return emulated::read(barrier).phase != parity; });
}

inline void fence_async_proxy() {}

}  // namespace nanolith::cuda
