// Thresholds and draws among a few tokens in shared memory, in any order. Each is compared with all others, which is
// less work than sorting while they are few hundreds. All threads of the block call these functions.
#pragma once

#include "backend/batch.h"
#include "sample/row.cuh"

namespace nanolith::cuda {

template <int Capacity>
struct Candidates {
    float logit[Capacity];
    int token[Capacity];
    Mass mass[Capacity];
    int count;       // may be above Capacity: so many asked for a place
    unsigned least;  // see threshold_among()
    int drawn;

    // For each thread's own additions between two barriers.
    __device__ void add(float new_logit, int new_token) {
        const int at = atomicAdd(&count, 1);
        if (at >= Capacity) return;
        logit[at] = new_logit;
        token[at] = new_token;
    }
    [[nodiscard]] __device__ unsigned bits(int i) const { return ordered_bits(logit[i]); }
    [[nodiscard]] __device__ Mass total() const {
        Mass sum = 0;
        for (int i = 0; i < count; ++i) sum += mass[i];
        return sum;
    }
};

// The highest bits such that those of `count` tokens that have at least these bits weigh `target` or more together;
// target is from 1 to the weight of all.
template <typename Bits, typename Weight>
__device__ unsigned threshold_among(int count, Mass target, const Bits& bits_of, const Weight& weight_of,
                                    unsigned* shared_least) {
    __syncthreads();
    if (threadIdx.x == 0) *shared_least = 0;
    __syncthreads();
    for (int mine = static_cast<int>(threadIdx.x); mine < count; mine += static_cast<int>(blockDim.x)) {
        const unsigned bits = bits_of(mine);
        Mass weight = 0;
        for (int i = 0; i < count; ++i) weight += bits_of(i) >= bits ? weight_of(i) : Mass{0};
        if (weight >= target) atomicMax(shared_least, bits);
    }
    __syncthreads();
    return *shared_least;
}

// The token among the candidates, at most a block's threads, at which the running mass in vocabulary order exceeds the
// share `uniform` of the total, which is above 0.
template <int Capacity>
__device__ int draw_among(double uniform, int size, Candidates<Capacity>& candidates) {
    const int mine = static_cast<int>(threadIdx.x);
    if (mine == 0) candidates.drawn = size;
    __syncthreads();
    const Mass target = draw_target(uniform, candidates.total());
    if (mine < candidates.count) {
        Mass running = 0;
        for (int i = 0; i < candidates.count; ++i)
            running += candidates.token[i] <= candidates.token[mine] ? candidates.mass[i] : Mass{0};
        if (running > target) atomicMin(&candidates.drawn, candidates.token[mine]);
    }
    __syncthreads();
    return candidates.drawn;
}

}  // namespace nanolith::cuda
