// The shared memory of a block that draws a token, and what its threads bring together there.
#pragma once

#include "sample/candidates.cuh"
#include "sample/search.cuh"

namespace nanolith::cuda {

constexpr int kCandidates = 512;
constexpr int kListed = 256;     // of the highest tokens, beside those of the bin of top-p's bound
constexpr int kGroups = 256;     // of threads, whose highest logits bound a small top-k
constexpr int kSmallTopK = 200;  // its candidates are about 390 where logits have no order

// The block's shared memory.
struct Shared {
    Bins<kBins> bins;
    SearchMemory search;
    Candidates<kCandidates> candidates;
    float warp_logit[kMostThreads / kWarp];
    int warp_token[kMostThreads / kWarp];
    unsigned group_highest[kGroups];
    unsigned least, most;  // of an interval of logits that the threads find together
    int count;
};

struct Candidate {
    float logit;
    int token;
};

// The higher logit; the lower token of two equal ones.
__device__ inline Candidate better(Candidate a, Candidate b) {
    return b.logit > a.logit || (b.logit == a.logit && b.token < a.token) ? b : a;
}

__device__ inline Candidate warp_best(Candidate best) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
        const Candidate other{__shfl_xor_sync(kAllLanes, best.logit, step),
                              __shfl_xor_sync(kAllLanes, best.token, step)};
        best = better(best, other);
    }
    return best;
}

// Some tokens of a thread: how many, and between which logits.
struct Interval {
    float least = INFINITY;
    float most = -INFINITY;
    int count = 0;
    __device__ void add(float logit) {
        least = fminf(least, logit);
        most = fmaxf(most, logit);
        ++count;
    }
};

}  // namespace nanolith::cuda
