// One block of 16 warps for each row, in passes over its logits (which L2 holds): one for the highest; four for each
// of top-k and top-p where they are set; two for the draw. Bytes: 4 * vocab_size a pass; bound by what one
// multiprocessor reads.
//
// top-k and top-p are thresholds on the logit. Each is found by a radix select over the logits' bits, 8 bits a pass:
// a histogram of weights (1 for top-k, the probability mass for top-p), then the bin in which the sum from above
// reaches the target. Masses are 64-bit integers in units of 2^-40 of the most probable token's: their sums do not
// depend on the order of additions, so the draw is reproducible. 32 registers a thread and no spills (sm_90a,
// nvcc 13.0).
#include "device/dependent.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"
#include "sample/sample.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarp;
constexpr int kBins = 256;
constexpr float kUnit = 1099511627776.0F;  // 2^40: 2^24 masses still fit 64 bits

// The block's shared memory.
struct Shared {
    unsigned long long bins[kBins];
    unsigned long long warp_mass[kWarps];
    float warp_logit[kWarps];
    int warp_token[kWarps];
    unsigned long long target;
    unsigned prefix;
    int token;
};

// A float as an unsigned number of the same order.
__device__ inline unsigned ordered_bits(float value) {
    const unsigned bits = __float_as_uint(value);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// One row of logits and what of it may be drawn.
struct Row {
    const float* logits;
    int size;
    float highest;
    float inverse_temperature;

    __device__ float logit(int i) const {
        const float value = logits[i];
        return value == 0 ? 0.0F : value;  // -0 and 0 are equal logits, but not equal bits
    }
    // Relative to the most probable token; 1 for it even where it is infinite.
    __device__ float probability(float logit) const {
        return logit == highest ? 1.0F : expf((logit - highest) * inverse_temperature);
    }
    __device__ unsigned long long mass(float logit) const {
        return static_cast<unsigned long long>(probability(logit) * kUnit);
    }
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

__device__ inline unsigned long long warp_total(unsigned long long mass) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) mass += __shfl_xor_sync(kAllLanes, mass, step);
    return mass;
}

// A logit on its way to the highest. A NaN wins against everything, plus infinity among it.
__device__ inline Candidate candidate(float logit, int token) {
    return isnan(logit) ? Candidate{INFINITY, kNoToken} : Candidate{logit, token};
}

// The highest logit of the row, for all threads. Its token is kNoToken where there is none above minus infinity, or a
// NaN.
__device__ Candidate find_highest(const Row& row, Shared& shared) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    Candidate best{-INFINITY, kNoToken};
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < row.size; i += kThreads)
        best = better(best, candidate(row.logit(i), i));
    best = warp_best(best);
    if (lane == 0) {
        shared.warp_logit[warp] = best.logit;
        shared.warp_token[warp] = best.token;
    }
    __syncthreads();
    const int from = lane % kWarps;
    return warp_best({shared.warp_logit[from], shared.warp_token[from]});
}

// The highest `bits` such that the tokens with ordered_bits(logit) >= bits weigh at least `target`, which must be
// from 1 to the weight of all. Tokens below `least` weigh nothing.
template <typename Weight>
__device__ unsigned radix_threshold(const Row& row, unsigned least, unsigned long long target, const Weight& weight,
                                    Shared& shared) {
    unsigned prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) shared.bins[i] = 0;
        __syncthreads();
        const unsigned above = shift == 24 ? 0U : ~0U << (shift + 8);  // the bits decided so far
        for (int i = static_cast<int>(threadIdx.x); i < row.size; i += kThreads) {
            const float logit = row.logit(i);
            const unsigned bits = ordered_bits(logit);
            if (bits >= least && (bits & above) == prefix) {
                atomicAdd(&shared.bins[(bits >> shift) & (kBins - 1)], weight(logit));
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int bin = kBins - 1;
            while (bin > 0 && shared.bins[bin] < target) target -= shared.bins[bin--];
            shared.prefix = prefix | static_cast<unsigned>(bin) << shift;
            shared.target = target;
        }
        __syncthreads();
        prefix = shared.prefix;
        target = shared.target;
    }
    return prefix;
}

// The mass of the tokens that are kept, for all threads; each warp's share of the row in shared.warp_mass.
template <typename Kept>
__device__ unsigned long long total_mass(const Row& row, int per_warp, const Kept& kept, Shared& shared) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int end = min(row.size, (warp + 1) * per_warp);
    unsigned long long mass = 0;
    for (int i = warp * per_warp + lane; i < end; i += kWarp) mass += kept(row.logit(i));
    mass = warp_total(mass);
    __syncthreads();
    if (lane == 0) shared.warp_mass[warp] = mass;
    __syncthreads();
    unsigned long long total = 0;
    for (int i = 0; i < kWarps; ++i) total += shared.warp_mass[i];
    return total;
}

// The first token whose running mass exceeds `target`, for all threads.
template <typename Kept>
__device__ int find_token(const Row& row, int per_warp, unsigned long long target, const Kept& kept, Shared& shared) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    unsigned long long before = 0;
    for (int i = 0; i < warp; ++i) before += shared.warp_mass[i];
    if (before <= target && target < before + shared.warp_mass[warp]) {
        // The whole warp is here: it walks its share 32 tokens at a time.
        for (int i = warp * per_warp;; i += kWarp) {
            unsigned long long running = i + lane < row.size ? kept(row.logit(i + lane)) : 0;
#pragma unroll
            for (int step = 1; step < kWarp; step *= 2) {
                const unsigned long long lower = __shfl_up_sync(kAllLanes, running, static_cast<unsigned>(step));
                if (lane >= step) running += lower;
            }
            const unsigned reached = __ballot_sync(kAllLanes, before + running > target);
            if (reached != 0) {
                if (lane == 0) shared.token = i + __ffs(static_cast<int>(reached)) - 1;
                break;
            }
            before += __shfl_sync(kAllLanes, running, kWarp - 1);
        }
    }
    __syncthreads();
    return shared.token;
}

__device__ int draw(const Row& row, const SampleParams& parameters, Shared& shared) {
    unsigned least = 0;
    if (parameters.top_k > 0 && parameters.top_k < row.size) {
        const auto count_one = [](float) { return 1ULL; };
        least = radix_threshold(row, least, static_cast<unsigned long long>(parameters.top_k), count_one, shared);
    }
    // The share of the row that a warp adds up and walks, in whole steps.
    const int per_warp = ((row.size + kWarps - 1) / kWarps + kWarp - 1) / kWarp * kWarp;
    if (parameters.top_p < 1) {
        const auto from_least = [&](float logit) { return ordered_bits(logit) >= least ? row.mass(logit) : 0ULL; };
        const unsigned long long total = total_mass(row, per_warp, from_least, shared);
        const double share = ceil(static_cast<double>(parameters.top_p) * static_cast<double>(total));
        const unsigned long long target = min(max(static_cast<unsigned long long>(share), 1ULL), total);
        least = radix_threshold(
            row, least, target, [&](float logit) { return row.mass(logit); }, shared);
    }
    const auto kept = [&](float logit) {
        return ordered_bits(logit) >= least && row.probability(logit) >= parameters.min_p ? row.mass(logit) : 0ULL;
    };
    const unsigned long long total = total_mass(row, per_warp, kept, shared);
    const auto target = static_cast<unsigned long long>(parameters.uniform * static_cast<double>(total));
    return find_token(row, per_warp, min(target, total - 1), kept, shared);
}

__global__ void __launch_bounds__(kThreads) sample_kernel(const float* logits, const SampleParams* parameters,
                                                          int vocab_size, int32_t* tokens, int32_t* const* copy) {
    __shared__ Shared shared;
    wait_for_launches_before();
    const SampleParams mine = parameters[blockIdx.x];
    Row row{logits + static_cast<int64_t>(blockIdx.x) * vocab_size, vocab_size, 0, 0};
    const Candidate best = find_highest(row, shared);
    int token = best.token;
    if (mine.temperature > 0 && token != kNoToken) {  // else greedy, or nothing to choose from
        row.highest = best.logit;
        row.inverse_temperature = 1.0F / mine.temperature;
        token = draw(row, mine, shared);
    }
    if (threadIdx.x == 0) {
        tokens[blockIdx.x] = max(token, 0);  // a step that is in flight already may take it
        (*copy)[blockIdx.x] = token;
    }
}

}  // namespace

Result<void> sample(const float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                    int32_t* const* copy, bool early, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, early};
    return launch(sample_kernel, shape, stream, logits, parameters, vocab_size, tokens, copy);
}

}  // namespace nanolith::cuda
