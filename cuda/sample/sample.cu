// One block for each row, in passes over its logits: one for the highest. A small top-k takes one more: the
// k-th highest of many groups' highest logits is at most the k-th highest logit, and few tokens reach it, which are
// collected in shared memory; all filters that follow look at these alone. Without one a draw takes two passes (the
// kept mass, and a part of the row again for the token), two for each threshold that a large top-k or top-p is: a
// histogram of bins that are linear in the logit, and the tokens of the bin in which the sum from above reaches the
// target, collected in shared memory (where these are too many, four passes find the threshold by its bits); none for
// min-p, one for Mirostat, two for XTC, four for typical-p and one more where it leaves few tokens, which collects
// them. Log-probabilities take up to three. Bytes: 4 * vocab_size a pass; bound by exponentials and the masks'
// instructions with many rows, and by what one multiprocessor reads with few.
//
// Every filter keeps an interval of logits of those before it, so that a row's state is two bounds. Edits are written
// into the row of logits, and taken back at the end.
//
// Weights are 1 for top-k and masses (row.cuh) for the others: integers, so that no sum depends on the order of
// additions and a draw is reproducible.
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
    unsigned narrow_least, narrow_most;  // see narrow()
    int narrow_count;
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

struct DrawnToken {
    int token;
    float surprise;  // bits; 0 where it is not asked for
};

// The operations of one block on its row. N: the logits of one access.
template <int N, int Threads>
class Sampler {
  public:
    __device__ Sampler(const float* logits, int size, const uint32_t* mask, Shared& shared)
        : row_{logits, size, mask}, shared_(shared) {}

    // The same for all threads.
    __device__ DrawnToken sample(const SampleParams& parameters) {
        const Candidate best = find_highest();
        if (parameters.temperature <= 0 || best.token == kNoToken) return {best.token, 0};
        row_.highest = best.logit;
#pragma unroll 1
        for (int i = 0; i < static_cast<int>(kNumFilters); ++i) apply(parameters.order[i], parameters);
        if (isinf(parameters.most_surprise)) return {draw(parameters.uniform), 0};
        keep_least_surprising(parameters.most_surprise);
        const int token = draw(parameters.uniform);
        const Mass mass = row_.mass(row_.masked(without_sign_of_zero(row_.logits[token]), token));
        return {token, static_cast<float>(log2(static_cast<double>(shared_.total)) - log2(static_cast<double>(mass)))};
    }

    // Of the whole row, before it is sampled or with a Sampler of its own: answers[0] becomes the log-probability of
    // `token`, and those that follow the `top` most probable tokens with theirs.
    __device__ void find_logprobs(int token, int top, TokenLogprob* answers) {
        row_.highest = find_highest().logit;
        const double log_total = log(static_cast<double>(total_mass()) / static_cast<double>(kMassUnit));
        const auto logprob = [&](float logit) {
            return static_cast<float>(-static_cast<double>(row_.distance(logit)) - log_total);
        };
        if (threadIdx.x == 0) answers[0] = {token, logprob(without_sign_of_zero(row_.logits[token]))};
        if (top == 0) return;
        collect_top(static_cast<Mass>(top));
        if (shared_.candidates.count > kCandidates) return find_top_one_by_one(top, logprob, answers + 1);
        const Candidates<kCandidates>& all = shared_.candidates;
        const int mine = static_cast<int>(threadIdx.x);
        if (mine >= all.count) return;
        int rank = 0;
        for (int i = 0; i < all.count; ++i) {
            const Candidate other{all.logit[i], all.token[i]};
            if (i != mine && better({all.logit[mine], all.token[mine]}, other).token == other.token) ++rank;
        }
        if (rank < top) answers[1 + rank] = {all.token[mine], logprob(all.logit[mine])};
    }

  private:
    static constexpr int kWarps = Threads / kWarp;
    static_assert(kBins % Threads == 0 && Threads % kGroups == 0 && Threads >= kCandidates);

    __device__ void apply(Filter filter, const SampleParams& parameters) {
        switch (filter) {
            case Filter::temperature:
                row_.inverse_temperature = 1.0F / parameters.temperature;
                return;
            case Filter::top_k:
                return keep_top_k(parameters.top_k);
            case Filter::typical_p:
                return keep_typical(parameters.typical_p);
            case Filter::top_p:
                return keep_top_p(parameters.top_p);
            case Filter::min_p:
                if (parameters.min_p > 0)
                    keep_above([&](float logit) { return row_.probability(logit) >= parameters.min_p; });
                return;
            case Filter::xtc:
                return drop_top_choices(parameters.xtc_threshold);
        }
    }

    __device__ void keep_top_k(int k) {
        if (k <= 0 || k >= row_.size) return;
        const bool untouched = row_.least == 0 && row_.most == ~0U && !collected_;
        if (untouched && k <= kSmallTopK) {
            collect_top(static_cast<Mass>(k));
            collected_ = shared_.candidates.count <= kCandidates;
        }
        row_.least = threshold(
            ByLogit{row_}, [](float) { return Mass{1}; }, [&](Mass total) { return min(static_cast<Mass>(k), total); });
    }

    __device__ void keep_top_p(float top_p) {
        if (top_p >= 1) return;
        row_.least = threshold(
            ByLogit{row_}, [&](float logit) { return row_.mass(logit); },
            [&](Mass total) { return share_of(top_p, total); });
    }

    // A token's surprise is its distance to the best one plus a constant, so distances are compared in its place.
    __device__ void keep_typical(float typical_p) {
        if (typical_p >= 1) return;
        Mass mine = 0;
        Mass my_distances = 0;
        for_all([&](float logit, int) {
            const float weight = row_.keeps(logit) ? row_.probability(logit) : 0.0F;
            if (weight == 0) return;
            mine += static_cast<Mass>(weight * kMassUnit);
            my_distances += static_cast<Mass>(weight * row_.distance(logit) * kMassUnit);  // at most 1/e
        });
        block_running(mine);
        const Mass total = shared_.total;
        block_running(my_distances);
        const auto mean = static_cast<float>(static_cast<double>(shared_.total) / static_cast<double>(total));
        const ByNearness order{row_, mean};
        const unsigned bound = threshold(
            order, [&](float logit) { return row_.mass(logit); }, [&](Mass all) { return share_of(typical_p, all); });
        narrow([&](float logit) { return order.bits(logit) >= bound; });
        if (collected_ || shared_.narrow_count > kCandidates) return;
        collect([&](float logit) { return row_.keeps(logit); });
        collected_ = true;
    }

    __device__ void drop_top_choices(float xtc_threshold) {
        if (xtc_threshold > 0.5F) return;
        const double bound = static_cast<double>(xtc_threshold) * static_cast<double>(total_mass());
        const unsigned least = row_.least;
        const unsigned most = row_.most;
        const float highest = row_.highest;
        narrow([&](float logit) { return static_cast<double>(row_.mass(logit)) >= bound; });
        const bool drops = shared_.narrow_count >= 2;
        row_.most = drops ? row_.least : most;
        row_.least = least;
        row_.highest = drops ? from_ordered_bits(row_.most) : highest;
    }

    __device__ void keep_least_surprising(float bits) {
        constexpr float kLn2 = 0.693147181F;
        const double log_total = log(static_cast<double>(total_mass()) / static_cast<double>(kMassUnit));
        const float most = bits * kLn2 - static_cast<float>(log_total);
        keep_above([&](float logit) { return row_.distance(logit) <= most; });
    }

    // Keeps the tokens whose logits `is_kept` says, which are all from some logit on, and the best in any case. That
    // logit is found by halving, without a look at the row.
    template <typename IsKept>
    __device__ void keep_above(const IsKept& is_kept) {
        unsigned above = row_.least;
        unsigned least = ordered_bits(row_.highest);
        while (above < least) {
            const unsigned middle = above + (least - above) / 2;
            if (is_kept(from_ordered_bits(middle))) {
                least = middle;
            } else {
                above = middle + 1;
            }
        }
        row_.least = least;
    }

    // Keeps the tokens that `is_kept` says, an interval of logits, and the best alone where it says none.
    template <typename IsKept>
    __device__ void narrow(const IsKept& is_kept) {
        __syncthreads();
        if (threadIdx.x == 0) {
            shared_.narrow_least = ~0U;
            shared_.narrow_most = 0;
            shared_.narrow_count = 0;
        }
        __syncthreads();
        unsigned least = ~0U;
        unsigned most = 0;
        int count = 0;
        for_all([&](float logit, int) {
            if (!row_.keeps(logit) || !is_kept(logit)) return;
            const unsigned bits = ordered_bits(logit);
            least = min(least, bits);
            most = max(most, bits);
            ++count;
        });
        if (count > 0) {
            atomicMin(&shared_.narrow_least, least);
            atomicMax(&shared_.narrow_most, most);
            atomicAdd(&shared_.narrow_count, count);
        }
        __syncthreads();
        const bool any = shared_.narrow_count > 0;
        row_.least = any ? shared_.narrow_least : ordered_bits(row_.highest);
        row_.most = any ? shared_.narrow_most : ordered_bits(row_.highest);
        row_.highest = from_ordered_bits(row_.most);
    }

    __device__ Mass total_mass() {
        Mass mine = 0;
        for_all([&](float logit, int) { mine += row_.keeps(logit) ? row_.mass(logit) : Mass{0}; });
        block_running(mine);
        return shared_.total;
    }

    // One pass for each of the `top` tokens: too many have equal logits to be collected.
    template <typename Logprob>
    __device__ void find_top_one_by_one(int top, const Logprob& logprob, TokenLogprob* answers) {
        Candidate before{INFINITY, -1};
        for (int rank = 0; rank < top; ++rank) {
            __syncthreads();
            Candidate best{-INFINITY, row_.size};
            for_all([&](float logit, int token) {
                const bool follows = logit < before.logit || (logit == before.logit && token > before.token);
                if (follows) best = better(best, {logit, token});
            });
            before = block_best(best);
            if (threadIdx.x == 0) answers[rank] = {before.token, logprob(before.logit)};
        }
    }

    __device__ int draw(double uniform) {
        if (!collected_) {
            return draw_from_all(uniform, [&](float logit) { return row_.keeps(logit) ? row_.mass(logit) : Mass{0}; });
        }
        weigh_candidates([&](float logit) { return row_.mass(logit); });
        return draw_among(uniform, row_.size, shared_.candidates);
    }

    // Fills in the candidates' masses, 0 for those that are not kept; the sum is shared_.total.
    template <typename Weight>
    __device__ void weigh_candidates(const Weight& weight) {
        Candidates<kCandidates>& all = shared_.candidates;
        const int mine = static_cast<int>(threadIdx.x);
        __syncthreads();
        if (mine < all.count) all.mass[mine] = row_.keeps(all.logit[mine]) ? weight(all.logit[mine]) : Mass{0};
        __syncthreads();
        if (mine == 0) shared_.total = all.total();
        __syncthreads();
    }

    // Of the row's tokens or, once they are collected, of the candidates.
    template <typename Visit>
    __device__ void for_all(const Visit& visit) {
        if (collected_) {
            const Candidates<kCandidates>& all = shared_.candidates;
            const int mine = static_cast<int>(threadIdx.x);
            if (mine < all.count) visit(all.logit[mine], all.token[mine]);
            return;
        }
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
        return block_best(best);
    }

    __device__ Candidate block_best(Candidate best) {
        best = warp_best(best);
        if (lane_index() == 0) {
            shared_.warp_logit[warp_index()] = best.logit;
            shared_.warp_token[warp_index()] = best.token;
        }
        __syncthreads();
        const int from = lane_index() % kWarps;
        return warp_best({shared_.warp_logit[from], shared_.warp_token[from]});
    }

    // Collects the tokens that `wanted` says.
    template <typename Wanted>
    __device__ void collect(const Wanted& wanted) {
        __syncthreads();
        if (threadIdx.x == 0) shared_.candidates.count = 0;
        __syncthreads();
        for_all([&](float logit, int token) {
            if (wanted(logit)) shared_.candidates.add(logit, token);
        });
        __syncthreads();
    }

    // Collects the tokens from which top-k may choose: each of the k groups with the highest logits has one at least.
    __device__ void collect_top(Mass k) {
        const auto bits_of = [&](int i) { return shared_.group_highest[i]; };
        const auto one = [](int) { return Mass{1}; };
        const unsigned bound = threshold_among(kGroups, k, bits_of, one, &shared_.candidates.least);
        collect([bound](float logit) { return ordered_bits(logit) >= bound; });
    }

    // Orders in which thresholds are looked for. bits() is higher for tokens that come earlier, and bin() from 0 to
    // kBins - 1 no higher for them.
    struct ByLogit {
        const Row& row;
        __device__ int bin(float logit) const { return bin_at(row.distance(logit)); }
        __device__ unsigned bits(float logit) const { return ordered_bits(logit); }
    };
    // By how far a token's distance is from the mean.
    struct ByNearness {
        const Row& row;
        float mean;
        __device__ float apart(float logit) const { return fabsf(row.distance(logit) - mean); }
        __device__ int bin(float logit) const { return bin_at(apart(logit)); }
        __device__ unsigned bits(float logit) const { return ordered_bits(-apart(logit)); }
    };
    __device__ static int bin_at(float nats) {
        const float bin = nats * (kBins / kBinned);
        return bin < kBins - 1 ? static_cast<int>(bin) : kBins - 1;
    }

    // The highest bits such that of the kept tokens those with bits of at least that weigh target_of(the weight of all)
    // or more; that is from 1 to the weight of all.
    template <typename Order, typename Weight, typename Target>
    __device__ unsigned threshold(const Order& order, const Weight& weight, const Target& target_of) {
        Candidates<kCandidates>& candidates = shared_.candidates;
        const auto bits_of_candidate = [&](int i) { return order.bits(candidates.logit[i]); };
        if (collected_) {
            weigh_candidates(weight);
            return threshold_among(
                candidates.count, target_of(shared_.total), bits_of_candidate,
                [&](int i) { return candidates.mass[i]; }, &candidates.least);
        }
        fill_bins(
            kBins, [&](float logit) { return row_.keeps(logit) ? order.bin(logit) : -1; }, weight);
        const int bin = find_bin<kBins>(target_of);
        const Mass target = shared_.target;
        const auto in_bin = [&](float logit) { return row_.keeps(logit) && order.bin(logit) == bin; };
        collect(in_bin);
        if (candidates.count > kCandidates) {
            return threshold_by_bits(
                target, in_bin, [&](float logit) { return order.bits(logit); }, weight);
        }
        return threshold_among(
            candidates.count, target, bits_of_candidate, [&](int i) { return weight(candidates.logit[i]); },
            &candidates.least);
    }

    // The same among the tokens that `among` says, with the bits that `bits_of` gives a logit, by a radix select: each
    // pass decides 8 bits.
    template <typename Among, typename Bits, typename Weight>
    __device__ unsigned threshold_by_bits(Mass target, const Among& among, const Bits& bits_of, const Weight& weight) {
        unsigned prefix = 0;
        for (int shift = 24; shift >= 0; shift -= 8) {
            const unsigned decided = shift == 24 ? 0U : ~0U << (shift + 8);
            const auto digit = [&](float logit) {
                if (!among(logit)) return -1;
                const unsigned bits = bits_of(logit);
                if ((bits & decided) != prefix) return -1;
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
    __device__ int draw_from_all(double uniform, const Kept& kept) {
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
        const Mass total = mass_before(kWarps);
        Mass target = draw_target(uniform, total);
        int warp = 0;
        while (target >= shared_.warp_mass[warp]) target -= shared_.warp_mass[warp++];
        const int token = find_token(warp * per_warp, min((warp + 1) * per_warp, row_.size), target, kept);
        __syncthreads();
        if (threadIdx.x == 0) shared_.total = total;
        __syncthreads();
        return token;
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
                running += kept(row_.masked(without_sign_of_zero(row_.logits[token]), token));
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
    bool collected_ = false;  // all tokens that are kept are among the candidates
};

// What an edit makes of a logit.
__device__ inline float edited(float logit, const LogitEdit& edit) {
    if (isnan(logit)) return logit;
    if (edit.add == -INFINITY) return -INFINITY;  // plus infinity is banned too
    const float biased = logit + edit.add;
    return (biased > 0 ? biased / edit.divide : biased * edit.divide) - edit.subtract;
}

// Edits the row. What the logits were is left in the edits, in place of what was to be added.
template <int Threads>
__device__ void edit_row(float* logits, LogitEdit* edits, int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += Threads) {
        float& logit = logits[edits[i].token];
        const float before = logit;
        logit = edited(before, edits[i]);
        edits[i].add = before;
    }
    __syncthreads();
}

template <int Threads>
__device__ void restore_row(float* logits, const LogitEdit* edits, int count) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += Threads) logits[edits[i].token] = edits[i].add;
    __syncthreads();
}

template <int N, int Threads>
__global__ void __launch_bounds__(Threads) sample_kernel(float* all_logits, const SampleParams* parameters,
                                                         int vocab_size, int32_t* tokens, const DrawTables* tables) {
    __shared__ Shared shared;
    wait_for_launches_before();
    const int row = static_cast<int>(blockIdx.x);
    float* const logits = all_logits + static_cast<int64_t>(row) * vocab_size;
    const SampleParams& mine = parameters[row];
    LogitEdit* const edits = tables->edits + mine.first_edit;
    if (mine.num_edits > 0) edit_row<Threads>(logits, edits, mine.num_edits);
    const auto words = static_cast<int64_t>((vocab_size + 31) / 32);
    const uint32_t* const mask = mine.mask < 0 ? nullptr : tables->masks + mine.mask * words;
    const DrawnToken drawn = Sampler<N, Threads>(logits, vocab_size, mask, shared).sample(mine);
    if (mine.num_edits > 0) restore_row<Threads>(logits, edits, mine.num_edits);
    if (threadIdx.x == 0) {
        tokens[row] = max(drawn.token, 0);  // a step that is in flight already may take it
        tables->sampled[row] = drawn.token;
        if (!isinf(mine.most_surprise)) tables->surprises[row] = drawn.surprise;
    }
    if (tables->queries == nullptr || tables->queries[row].first < 0) return;
    __syncthreads();
    const RowQuery query = tables->queries[row];
    Sampler<N, Threads>(logits, vocab_size, nullptr, shared)
        .find_logprobs(query.token < 0 ? max(drawn.token, 0) : query.token, query.top, tables->logprobs + query.first);
}

template <int Threads>
Result<void> launch_sample(float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                           const DrawTables* tables, bool early, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(Threads), 0, early};
    const auto kernel = vocab_size % 4 == 0 ? sample_kernel<4, Threads> : sample_kernel<1, Threads>;
    return launch(kernel, shape, stream, logits, parameters, vocab_size, tokens, tables);
}

}  // namespace

Result<void> sample(float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                    const DrawTables* tables, bool early, cudaStream_t stream) {
    // With few rows a block has a multiprocessor for itself; with more, two share one.
    constexpr int kFewRows = 128;
    if (rows <= kFewRows) {
        return launch_sample<kMostThreads>(logits, parameters, rows, vocab_size, tokens, tables, early, stream);
    }
    return launch_sample<kMostThreads / 2>(logits, parameters, rows, vocab_size, tokens, tables, early, stream);
}

}  // namespace nanolith::cuda
