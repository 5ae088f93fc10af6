// Histograms of masses in shared memory.
#pragma once

#include "sample/row.cuh"

namespace nanolith::cuda {

// Masses of 64 bits in two words: shared memory adds to 32 bits at once, but to 64 bits only by trying again and again.
template <int Count>
struct Bins {
    unsigned low[Count];
    unsigned high[Count];

    // For all threads of a block, between barriers.
    __device__ void clear() {
        for (int i = static_cast<int>(threadIdx.x); i < Count; i += static_cast<int>(blockDim.x)) low[i] = high[i] = 0;
    }
    // For any number of threads between two barriers; N additions are under way together.
    template <int N>
    __device__ void add(const int (&bins)[N], const Mass (&masses)[N]) {
        unsigned before[N];
#pragma unroll
        for (int i = 0; i < N; ++i) before[i] = atomicAdd(&low[bins[i]], static_cast<unsigned>(masses[i]));
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const unsigned carry = before[i] + static_cast<unsigned>(masses[i]) < before[i] ? 1U : 0U;
            const unsigned more = static_cast<unsigned>(masses[i] >> 32) + carry;
            if (more > 0) atomicAdd(&high[bins[i]], more);
        }
    }
    __device__ void add(int bin, Mass mass) {
        const int bins[1] = {bin};
        const Mass masses[1] = {mass};
        add(bins, masses);
    }
    [[nodiscard]] __device__ Mass at(int bin) const {
        return static_cast<Mass>(high[bin]) << 32 | low[bin];
    }
};

constexpr int kBins = 4096;  // of a row's masses, a multiple of the threads
// The nats that these bins cover. Tokens farther away, in the last bin, have a mass of 0.
constexpr float kBinned = 28;

// Orders of tokens. bits() is higher for tokens that come earlier, and position() no higher for them: that of bin i is
// from i on. Of kept tokens it is not negative.
struct ByLogit {
    const Row& row;
    [[nodiscard]] __device__ float position(float logit) const { return row.distance(logit) * (kBins / kBinned); }
    [[nodiscard]] __device__ unsigned bits(float logit) const { return ordered_bits(logit); }
};
// By how far a token's distance is from the mean.
struct ByNearness {
    const Row& row;
    float mean;
    [[nodiscard]] __device__ float apart(float logit) const { return fabsf(row.distance(logit) - mean); }
    [[nodiscard]] __device__ float position(float logit) const { return apart(logit) * (kBins / kBinned); }
    [[nodiscard]] __device__ unsigned bits(float logit) const { return ordered_bits(-apart(logit)); }
};

__device__ inline int bin_at(float position) {
    return position < kBins - 1 ? static_cast<int>(position) : kBins - 1;
}

// About how many tokens are in a bin by logit that has this mass: at most 1 in 145 too many.
__device__ inline Mass tokens_in(int bin, Mass mass) {
    const float farthest = static_cast<float>(bin + 1) * (kBinned / kBins);
    return static_cast<Mass>(static_cast<float>(mass) / kMassUnit * expf(farthest) + 0.5F);
}

}  // namespace nanolith::cuda
