// One block for each row, in passes over its logits: one for the highest. A draw with a small top-k takes one more: the
// k-th highest of many groups' highest logits is at most the k-th highest logit, and few tokens reach it, which are
// collected in shared memory; the rest is done among these. Any other draw takes two passes (the kept mass, and a part
// of the row again for the token), and two for each threshold that top-k or top-p is: a histogram of bins that are
// linear in the logit, and the tokens of the bin in which the sum from above reaches the target, collected in shared
// memory. Where these are too many to collect, four passes find the threshold by its bits. Bytes: 4 * vocab_size a
// pass; bound by memory with many rows, and by what one multiprocessor reads with few.
//
// Weights are 1 for top-k and masses (row.cuh) for top-p: integers, so that no sum depends on the order of additions
// and a draw is reproducible.
#include "device/dependent.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"
#include "sample/candidates.cuh"
#include "sample/sample.h"

namespace nanolith::cuda {

namespace {

constexpr int kBins = 4096;  // of the histogram, a multiple of the threads
// The logits that bins differ in, times the inverse temperature: lower ones, in the last bin, have a mass of 0.
constexpr float kBinned = 28;
constexpr int kDigits = 256;  // values of the 8 bits that a pass decides
constexpr int kCandidates = 512;
constexpr int kGroups = 256;     // of threads, whose highest logits bound a small top-k
constexpr int kSmallTopK = 200;  // its candidates are about 390 where logits have no order
constexpr int kMostThreads = 1024;

// The block's shared memory.
struct Shared {
    Mass bins[kBins];
    Mass warp_mass[kMostThreads / kWarp];
    float warp_logit[kMostThreads / kWarp];
    int warp_token[kMostThreads / kWarp];
    unsigned group_highest[kGroups];
    Candidates<kCandidates> candidates;
    Mass total;
    Mass target;
    int found;
};

__device__ inline int lane_index() {
    return static_cast<int>(threadIdx.x) % kWarp;
}
__device__ inline int warp_index() {
    return static_cast<int>(threadIdx.x) / kWarp;
}

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

// A logit on its way to the highest. A NaN wins against everything, plus infinity among it.
__device__ inline Candidate candidate(float logit, int token) {
    return isnan(logit) ? Candidate{INFINITY, kNoToken} : Candidate{logit, token};
}

// The operations of one block on its row. N: the logits of one access.
template <int N, int Threads>
class Sampler {
  public:
    __device__ Sampler(const float* logits, int size, Shared& shared) : row_{logits, size, 0, 0}, shared_(shared) {}

    // The same for all threads.
    __device__ int sample(const SampleParams& parameters) {
        const Candidate best = find_highest();
        if (parameters.temperature <= 0 || best.token == kNoToken) return best.token;
        row_.highest = best.logit;
        row_.inverse_temperature = 1.0F / parameters.temperature;
        const bool top_k = parameters.top_k > 0 && parameters.top_k < row_.size;
        if (top_k && parameters.top_k <= kSmallTopK) {
            collect_top(static_cast<Mass>(parameters.top_k));
            if (shared_.candidates.count <= kCandidates) return draw_among(row_, parameters, shared_.candidates);
        }
        unsigned least = 0;
        if (top_k) {
            const auto count = static_cast<Mass>(parameters.top_k);
            least = threshold(
                least, [](float) { return Mass{1}; }, [&](Mass) { return count; });
        }
        if (parameters.top_p < 1) {
            least = threshold(
                least, [&](float logit) { return row_.mass(logit); },
                [&](Mass total) { return share_of(parameters.top_p, total); });
        }
        return draw_from_all(parameters, [&](float logit) {
            const bool kept = ordered_bits(logit) >= least && row_.probability(logit) >= parameters.min_p;
            return kept ? row_.mass(logit) : Mass{0};
        });
    }

  private:
    static constexpr int kWarps = Threads / kWarp;
    static_assert(kBins % Threads == 0 && Threads % kGroups == 0 && Threads >= kCandidates);

    template <typename Visit>
    __device__ void for_all(const Visit& visit) {
        for_logits<N>(row_, 0, row_.size, static_cast<int>(threadIdx.x), Threads, visit);
    }

    // The highest logit of the row, for all threads, and those of the groups in shared memory. Its token is kNoToken
    // where there is none above minus infinity, or a NaN.
    __device__ Candidate find_highest() {
        Candidate best{-INFINITY, kNoToken};
        for_all([&](float logit, int token) { best = better(best, candidate(logit, token)); });
        unsigned highest = ordered_bits(best.logit);
        constexpr int kLanes = Threads / kGroups;
#pragma unroll
        for (int step = kLanes / 2; step > 0; step /= 2)
            highest = max(highest, __shfl_xor_sync(kAllLanes, highest, step));
        if (threadIdx.x % kLanes == 0) shared_.group_highest[threadIdx.x / kLanes] = highest;
        best = warp_best(best);
        if (lane_index() == 0) {
            shared_.warp_logit[warp_index()] = best.logit;
            shared_.warp_token[warp_index()] = best.token;
        }
        __syncthreads();
        const int from = lane_index() % kWarps;
        return warp_best({shared_.warp_logit[from], shared_.warp_token[from]});
    }

    // Collects the tokens whose logits are at least `bound` and `also` says.
    template <typename Also>
    __device__ void collect(unsigned bound, const Also& also) {
        __syncthreads();
        if (threadIdx.x == 0) shared_.candidates.count = 0;
        __syncthreads();
        for_all([&](float logit, int token) {
            if (ordered_bits(logit) >= bound && also(logit)) shared_.candidates.add(logit, token);
        });
        __syncthreads();
    }

    // Collects the tokens from which top-k may choose: each of the k groups with the highest logits has one at least.
    __device__ void collect_top(Mass k) {
        const auto bits_of = [&](int i) { return shared_.group_highest[i]; };
        const auto one = [](int) { return Mass{1}; };
        const unsigned bound = threshold_among(kGroups, k, bits_of, one, &shared_.candidates.least);
        collect(bound, [](float) { return true; });
    }

    // From 0 for the highest logit to kBins - 1; a higher logit has no higher bin.
    __device__ int bin_of(float logit) const {
        if (logit == row_.highest) return 0;
        const float distance = (row_.highest - logit) * row_.inverse_temperature * (kBins / kBinned);
        return distance < kBins - 1 ? static_cast<int>(distance) : kBins - 1;
    }

    // The highest bits such that the tokens with bits of at least that weigh target_of(the weight of all) or more; that
    // is from 1 to the weight of all. Tokens below `least` weigh nothing.
    template <typename Weight, typename Target>
    __device__ unsigned threshold(unsigned least, const Weight& weight, const Target& target_of) {
        fill_bins(
            kBins, [&](float logit) { return ordered_bits(logit) >= least ? bin_of(logit) : -1; }, weight);
        const int bin = find_bin<kBins>(target_of);
        const Mass target = shared_.target;
        const auto in_bin = [&](float logit) { return bin_of(logit) == bin; };
        collect(least, in_bin);
        const Candidates<kCandidates>& candidates = shared_.candidates;
        if (candidates.count > kCandidates) return threshold_by_bits(least, target, in_bin, weight);
        return threshold_among(
            candidates.count, target, [&](int i) { return candidates.bits(i); },
            [&](int i) { return weight(candidates.logit[i]); }, &shared_.candidates.least);
    }

    // The same among the tokens that `among` says, by a radix select: each pass decides 8 bits.
    template <typename Among, typename Weight>
    __device__ unsigned threshold_by_bits(unsigned least, Mass target, const Among& among, const Weight& weight) {
        unsigned prefix = 0;
        for (int shift = 24; shift >= 0; shift -= 8) {
            const unsigned decided = shift == 24 ? 0U : ~0U << (shift + 8);
            const auto digit = [&](float logit) {
                const unsigned bits = ordered_bits(logit);
                if (bits < least || (bits & decided) != prefix || !among(logit)) return -1;
                return static_cast<int>(~(bits >> shift) & (kDigits - 1));  // the highest first
            };
            fill_bins(kDigits, digit, weight);
            const int found = find_bin<kDigits>([&](Mass) { return target; });
            target = shared_.target;
            prefix |= static_cast<unsigned>(kDigits - 1 - found) << shift;
        }
        return prefix;
    }

    // Adds each logit's weight to its bin; a bin of -1 is none. A thread adds up what falls to the same bin in a row.
    template <typename Bin, typename Weight>
    __device__ void fill_bins(int bins, const Bin& bin_of_logit, const Weight& weight) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < bins; i += Threads) shared_.bins[i] = 0;
        __syncthreads();
        int last = -1;
        Mass sum = 0;
        for_all([&](float logit, int) {
            const int bin = bin_of_logit(logit);
            if (bin < 0) return;
            if (bin != last) {
                if (sum > 0) atomicAdd(&shared_.bins[last], sum);
                last = bin;
                sum = 0;
            }
            sum += weight(logit);
        });
        if (sum > 0) atomicAdd(&shared_.bins[last], sum);
        __syncthreads();
    }

    // The bin in which the sum from bin 0 on reaches target_of(the sum of all); what it lacks before this bin is
    // shared_.target.
    template <int Bins, typename Target>
    __device__ int find_bin(const Target& target_of) {
        constexpr int kEach = (Bins + Threads - 1) / Threads;
        const int first = static_cast<int>(threadIdx.x) * kEach;
        Mass mine = 0;
        for (int i = first; i < min(first + kEach, Bins); ++i) mine += shared_.bins[i];
        const Mass before = block_running(mine) - mine;
        const Mass target = target_of(shared_.total);
        if (before < target && target <= before + mine) {
            Mass left = target - before;
            int bin = first;
            while (shared_.bins[bin] < left) left -= shared_.bins[bin++];
            shared_.found = bin;
            shared_.target = left;
        }
        __syncthreads();
        return shared_.found;
    }

    // The sum over the threads up to this one; the sum over all is in shared_.total.
    __device__ Mass block_running(Mass mass) {
        const Mass in_warp = warp_running(mass);
        __syncthreads();
        if (lane_index() == kWarp - 1) shared_.warp_mass[warp_index()] = in_warp;
        __syncthreads();
        const Mass before = mass_before(warp_index());
        if (static_cast<int>(threadIdx.x) == Threads - 1) shared_.total = before + in_warp;
        __syncthreads();
        return before + in_warp;
    }

    __device__ Mass mass_before(int warp) const {
        Mass before = 0;
        for (int i = 0; i < warp; ++i) before += shared_.warp_mass[i];
        return before;
    }

    // The first token whose running mass of kept(logit) exceeds the target. Each warp adds up a share of the row; then
    // each thread a part of the share that has the token.
    template <typename Kept>
    __device__ int draw_from_all(const SampleParams& parameters, const Kept& kept) {
        constexpr int kStep = kWarp * N;
        const int per_warp = ((row_.size + kWarps - 1) / kWarps + kStep - 1) / kStep * kStep;
        const int begin = warp_index() * per_warp;
        Mass mass = 0;
        for_logits<N>(row_, begin, min(begin + per_warp, row_.size), lane_index(), kWarp,
                      [&](float logit, int) { mass += kept(logit); });
        mass = warp_total(mass);
        __syncthreads();
        if (lane_index() == 0) shared_.warp_mass[warp_index()] = mass;
        __syncthreads();
        Mass target = draw_target(parameters.uniform, mass_before(kWarps));
        int warp = 0;
        while (target >= shared_.warp_mass[warp]) target -= shared_.warp_mass[warp++];
        return find_token(warp * per_warp, min((warp + 1) * per_warp, row_.size), target, kept);
    }

    template <typename Kept>
    __device__ int find_token(int begin, int end, Mass target, const Kept& kept) {
        const int per_thread = ((end - begin + Threads - 1) / Threads + N - 1) / N * N;
        const int mine = min(begin + static_cast<int>(threadIdx.x) * per_thread, end);
        const int mine_end = min(mine + per_thread, end);
        Mass mass = 0;
        for_logits<N>(row_, mine, mine_end, 0, 1, [&](float logit, int) { mass += kept(logit); });
        Mass running = block_running(mass) - mass;
        if (running <= target && target < running + mass) {
            int token = mine;
            while (true) {
                running += kept(without_sign_of_zero(row_.logits[token]));
                if (running > target) break;
                ++token;
            }
            shared_.found = token;
        }
        __syncthreads();
        return shared_.found;
    }

    Row row_;
    Shared& shared_;
};

template <int N, int Threads>
__global__ void __launch_bounds__(Threads) sample_kernel(const float* logits, const SampleParams* parameters,
                                                         int vocab_size, int32_t* tokens, int32_t* const* copy) {
    __shared__ Shared shared;
    wait_for_launches_before();
    Sampler<N, Threads> sampler(logits + static_cast<int64_t>(blockIdx.x) * vocab_size, vocab_size, shared);
    const int token = sampler.sample(parameters[blockIdx.x]);
    if (threadIdx.x == 0) {
        tokens[blockIdx.x] = max(token, 0);  // a step that is in flight already may take it
        (*copy)[blockIdx.x] = token;
    }
}

template <int Threads>
Result<void> launch_sample(const float* logits, const SampleParams* parameters, int rows, int vocab_size,
                           int32_t* tokens, int32_t* const* copy, bool early, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(Threads), 0, early};
    const auto kernel = vocab_size % 4 == 0 ? sample_kernel<4, Threads> : sample_kernel<1, Threads>;
    return launch(kernel, shape, stream, logits, parameters, vocab_size, tokens, copy);
}

}  // namespace

Result<void> sample(const float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                    int32_t* const* copy, bool early, cudaStream_t stream) {
    // With few rows a block has a multiprocessor for itself; with more, two share one.
    constexpr int kFewRows = 128;
    if (rows <= kFewRows) {
        return launch_sample<kMostThreads>(logits, parameters, rows, vocab_size, tokens, copy, early, stream);
    }
    return launch_sample<kMostThreads / 2>(logits, parameters, rows, vocab_size, tokens, copy, early, stream);
}

}  // namespace nanolith::cuda
