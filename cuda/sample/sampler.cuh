// Filters of a row and the draw from what they leave, by one block.
//
// Each pass over the row reads its logits once; the first finds the highest. A small top-k takes one more: the k-th
// highest of many groups' highest logits is at most the k-th highest logit, and few tokens reach it, which are listed
// in shared memory; all filters that follow look at the list alone. Otherwise a threshold takes two: one fills bins
// that are linear in the logit, and one lists the tokens of the bin in which the sum from above reaches the target
// (where these are too many, four passes find the threshold by its bits).
//
// - A large top-k takes these two, and typical-p one before, for the mean.
// - Top-p takes the first of them at once. The second waits until the bound matters, since min-p, which takes no pass,
//   may leave nothing of the bin. It also gives the mass of all that are kept, which XTC and Mirostat compare with, and
//   lists the highest tokens: where all that are left to draw from are among them, no further pass is needed.
// - Without bins XTC takes two passes, and Mirostat one.
// - A draw takes one, and a part of the row again for the token; from a list none.
//
// Every filter keeps an interval of logits of those before it, so that a row's state is two bounds. Weights are 1 for
// top-k and masses (row.cuh) for the others: integers, so that no sum depends on the order of additions and a draw is
// reproducible.
#pragma once

#include "backend/batch.h"
#include "sample/shared.cuh"

namespace nanolith::cuda {

struct DrawnToken {
    int token;
    float surprise;  // bits; 0 where it is not asked for
};

// The operations of one block on its row. N: the logits of one access.
template <int N, int Threads>
class Sampler {
  public:
    __device__ Sampler(const float* logits, int size, const uint32_t* mask, Shared& shared)
        : row_{logits, size, mask}, shared_(shared), search_(shared.search) {}

    // The same for all threads.
    __device__ DrawnToken sample(const SampleParams& parameters) {
        const Candidate best = find_highest();
        if (parameters.temperature <= 0 || best.token == kNoToken) return {best.token, 0};
        row_.highest = best.logit;
#pragma unroll 1
        for (int i = 0;; ++i) {
            const bool all_done = i == static_cast<int>(kNumFilters);
            if (!all_done && !is_on(parameters.order[i], parameters)) continue;
            if (all_done || needs_bound(parameters.order[i], parameters)) settle();
            if (all_done) break;
            apply(parameters.order[i], parameters);
        }
        const bool bounds_surprise = !isinf(parameters.most_surprise);
        if (bounds_surprise) keep_least_surprising(parameters.most_surprise);
        const Drawn drawn = listed_ ? draw_from_list(parameters.uniform) : draw_from_row(parameters.uniform);
        if (!bounds_surprise) return {drawn.token, 0};
        const Mass mass = row_.mass(row_.logit(drawn.token));
        return {drawn.token,
                static_cast<float>(log2(static_cast<double>(drawn.total)) - log2(static_cast<double>(mass)))};
    }

    // Of the whole row, before it is sampled or with a Sampler of its own: answers[0] becomes the log-probability of
    // `token`, and those that follow the `top` most probable tokens with theirs.
    __device__ void find_logprobs(int token, int top, TokenLogprob* answers) {
        row_.highest = find_highest().logit;
        const double log_total = log(static_cast<double>(total_mass()) / static_cast<double>(kMassUnit));
        const auto logprob = [&](float logit) {
            return static_cast<float>(-static_cast<double>(row_.distance(logit)) - log_total);
        };
        if (threadIdx.x == 0) answers[0] = {token, logprob(row_.logit(token))};
        if (top == 0) return;
        collect_top(static_cast<Mass>(top));
        const Candidates<kCandidates>& all = shared_.candidates;
        if (!all.complete()) return find_top_one_by_one(top, logprob, answers + 1);
        const int mine = static_cast<int>(threadIdx.x);
        if (mine >= all.front) return;
        int rank = 0;
        for (int i = 0; i < all.front; ++i) {
            const Candidate other{all.logit[i], all.token[i]};
            if (i != mine && better({all.logit[mine], all.token[mine]}, other).token == other.token) ++rank;
        }
        if (rank < top) answers[1 + rank] = {all.token[mine], logprob(all.logit[mine])};
    }

  private:
    static constexpr int kWarps = Threads / kWarp;
    static_assert(kBins % Threads == 0 && Threads % kGroups == 0 && Threads >= kCandidates &&
                  kCandidates <= kMostItems && kGroups <= kMostItems);

    // ---- Filters ----

    __device__ bool is_on(Filter filter, const SampleParams& parameters) const {
        switch (filter) {
            case Filter::temperature:
                return true;
            case Filter::top_k:
                return parameters.top_k > 0 && parameters.top_k < row_.size;
            case Filter::typical_p:
                return parameters.typical_p < 1;
            case Filter::top_p:
                return parameters.top_p < 1;
            case Filter::min_p:
                return parameters.min_p > 0;
            case Filter::xtc:
                return parameters.xtc_threshold <= 0.5F;
        }
        return false;
    }

    // Whether a filter cannot do with a bound that is left open.
    __device__ bool needs_bound(Filter filter, const SampleParams& parameters) {
        if (filter == Filter::xtc) return !has_no_choice(parameters.xtc_threshold);
        return filter != Filter::min_p;
    }

    __device__ void apply(Filter filter, const SampleParams& parameters) {
        switch (filter) {
            case Filter::temperature:
                forget_bins();
                row_.inverse_temperature = 1.0F / parameters.temperature;
                return;
            case Filter::top_k:
                return keep_top_k(parameters.top_k);
            case Filter::typical_p:
                return keep_typical(parameters.typical_p);
            case Filter::top_p:
                return keep_first(0, parameters.top_p);
            case Filter::min_p:
                return keep_above([&](float logit) { return row_.probability(logit) >= parameters.min_p; });
            case Filter::xtc:
                return drop_top_choices(parameters.xtc_threshold);
        }
    }

    __device__ void keep_top_k(int k) {
        if (!listed_ && row_.keeps_all() && k <= kSmallTopK) {
            collect_top(static_cast<Mass>(k));
            listed_ = shared_.candidates.complete();
        }
        keep_first(k, 0);
    }

    // Keeps the `tokens` highest ones, or where that is 0 as many as have the share `share` of the mass.
    __device__ void keep_first(int tokens, float share) {
        forget_bins();
        const ByLogit order{row_};
        const auto target = [&](Mass total) {
            return tokens > 0 ? min(static_cast<Mass>(tokens), total) : share_of(share, total);
        };
        if (listed_) {
            const auto weight = [&](float logit) { return tokens > 0 ? Mass{1} : row_.mass(logit); };
            row_.least = from_ordered_bits(listed_threshold(order, weight, target));
            return;
        }
        if (tokens > 0) {
            fill_bins<true>(order);
        } else {
            fill_bins<false>(order);
        }
        const Reached bound = bin_reaching(target);
        bin_ = bound.at;
        lacking_ = bound.lacking;
        least_in_bins_ = row_.least;
        bins_count_ = tokens > 0;
    }

    // A token's surprise is its distance to the best one plus a constant, so distances are compared in its place.
    __device__ void keep_typical(float typical_p) {
        forget_bins();
        const auto mass = [&](float logit) { return row_.mass(logit); };
        const auto target = [&](Mass total) { return share_of(typical_p, total); };
        const ByNearness order{row_, mean_distance()};
        if (listed_) {
            const unsigned bound = listed_threshold(order, mass, target);
            return narrow([&](float logit) { return order.bits(logit) >= bound; });
        }
        fill_bins<false>(order);
        const Reached bound = bin_reaching(target);
        Interval nearer;
        collect([&](float logit) {
            const int bin = bin_at(order.position(logit));
            if (bin < bound.at && row_.keeps(logit)) nearer.add(logit);
            return bin == bound.at;
        });
        const bool complete = shared_.candidates.complete();
        const unsigned least = threshold_in_bin(order, mass, row_, bound);
        const auto near = [&](float logit) { return order.bits(logit) >= least; };
        if (complete) {
            for_listed([&](float logit, int) {
                if (near(logit)) nearer.add(logit);
            });
            keep_interval(nearer);
        } else {
            narrow(near);
        }
        if (shared_.count > kCandidates) return;
        collect([](float) { return true; });
        listed_ = true;
    }

    // Of the tokens that are kept, weighed with their probabilities.
    __device__ float mean_distance() {
        Mass mine = 0;
        Mass my_distances = 0;
        for_all([&](float logit, int) {
            const float distance = row_.kept_distance(logit);
            const float weight = expf(-distance);
            mine += static_cast<Mass>(weight * kMassUnit);
            my_distances += static_cast<Mass>(weight * (weight > 0 ? distance : 0.0F) * kMassUnit);  // at most 1/e
        });
        const Mass total = search_.total(mine);
        return static_cast<float>(static_cast<double>(search_.total(my_distances)) / static_cast<double>(total));
    }

    // Whether even the best token is no choice of XTC's, since those in the bins before the bound's weigh too much.
    __device__ bool has_no_choice(float xtc_threshold) {
        if (bin_ < 0 || bins_count_) return false;
        return kMassUnit < static_cast<double>(xtc_threshold) * static_cast<double>(mass_before(bin_of_bound()));
    }

    __device__ void drop_top_choices(float xtc_threshold) {
        if (has_no_choice(xtc_threshold)) return;
        const double bound = static_cast<double>(xtc_threshold) * static_cast<double>(total_mass());
        const Row before = row_;
        narrow([&](float logit) { return static_cast<double>(row_.mass(logit)) >= bound; });
        const float least_choice = row_.least;
        const bool drops = shared_.count >= 2;
        row_ = before;
        if (!drops) return;
        forget_bins();
        row_.most = row_.highest = least_choice;
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
        unsigned above = ordered_bits(row_.least);
        unsigned least = ordered_bits(row_.highest);
        while (above < least) {
            const unsigned middle = above + (least - above) / 2;
            if (is_kept(from_ordered_bits(middle))) {
                least = middle;
            } else {
                above = middle + 1;
            }
        }
        const float bound = from_ordered_bits(least);
        if (bound <= row_.least) return;
        row_.least = bound;
        kept_mass_ = 0;
        if (bin_at(ByLogit{row_}.position(bound)) <= last_listed_) listed_ = true;
    }

    // Keeps the tokens that `is_kept` says, an interval of logits, and the best alone where it says none.
    template <typename IsKept>
    __device__ void narrow(const IsKept& is_kept) {
        Interval mine;
        for_all([&](float logit, int) {
            if (row_.keeps(logit) && is_kept(logit)) mine.add(logit);
        });
        keep_interval(mine);
    }

    // Keeps the interval that the threads' own ones are parts of, and the best alone where they have no tokens.
    __device__ void keep_interval(const Interval& mine) {
        __syncthreads();
        if (threadIdx.x == 0) {
            shared_.least = ~0U;
            shared_.most = 0;
            shared_.count = 0;
        }
        __syncthreads();
        if (mine.count > 0) {
            atomicMin(&shared_.least, ordered_bits(mine.least));
            atomicMax(&shared_.most, ordered_bits(mine.most));
            atomicAdd(&shared_.count, mine.count);
        }
        __syncthreads();
        const bool any = shared_.count > 0;
        row_.least = any ? from_ordered_bits(shared_.least) : row_.highest;
        row_.most = any ? from_ordered_bits(shared_.most) : row_.highest;
        row_.highest = row_.most;
    }

    // ---- Bins ----

    // Before temperature or the highest logit change, or the memory is used otherwise.
    __device__ void forget_bins() {
        bin_ = last_listed_ = -1;
        lacking_ = kept_mass_ = 0;
    }

    // The bin that has the least of what is kept, while there are bins by logit.
    __device__ int bin_of_bound() const {
        return min(bin_, bin_at(ByLogit{row_}.position(row_.least)));
    }

    __device__ Mass mass_before(int bin) {
        Mass mine = 0;
        for (int i = static_cast<int>(threadIdx.x); i < bin; i += Threads) mine += shared_.bins.at(i);
        return search_.total(mine);
    }

    // The last of the bins, up to `bin`, that have few enough tokens together to be listed beside those of `bin`; -1:
    // the first has too many.
    __device__ int last_to_list(int bin) {
        constexpr Mass kSpare = 16;  // places, since numbers of tokens are not exact
        const auto tokens = [&](int i) {
            const Mass weight = shared_.bins.at(i);
            return bins_count_ ? weight : tokens_in(i, weight);
        };
        const Mass room = kCandidates - min(tokens(bin) + kSpare, Mass{kCandidates - 1});
        bool all_fit = false;
        const Reached last = search_.template reach<kBins>([&](int i) { return i <= bin ? tokens(i) : Mass{0}; },
                                                           [&](Mass total) {
                                                               all_fit = total <= kCandidates - kSpare;
                                                               return min(total, min(room, Mass{kListed}));
                                                           });
        return all_fit ? bin : last.at - 1;
    }

    // Where there are bins by logit: finds the bound that was left open and, where bins hold masses, the mass that is
    // kept, and lists the highest tokens.
    __device__ void settle() {
        if (bin_ < 0 || kept_mass_ > 0 || listed_) return;
        const ByLogit order{row_};
        const auto weight = [&](float logit) { return bins_count_ ? Mass{1} : row_.mass(logit); };
        const int bin = bin_of_bound();
        const Mass before = mass_before(bin);
        const int last = last_to_list(bin);
        Row in_bins = row_;
        in_bins.least = least_in_bins_;
        list([&](float logit) {
            const int its_bin = bin_at(order.position(logit));
            if (!in_bins.keeps(logit)) return Place::none;
            return its_bin == bin ? Place::front : its_bin <= last ? Place::back : Place::none;
        });
        if (lacking_ > 0 && bin == bin_) {
            const unsigned bits = threshold_in_bin(order, weight, in_bins, Reached{bin, lacking_});
            row_.least = fmaxf(row_.least, from_ordered_bits(bits));
        }
        lacking_ = 0;
        bin_ = bins_count_ || !shared_.candidates.complete() ? -1 : bin;
        if (!shared_.candidates.complete()) return;
        const int mine = static_cast<int>(threadIdx.x);
        const Candidates<kCandidates>& all = shared_.candidates;
        const bool counts = bin_ >= 0 && mine < all.front && row_.keeps(all.logit[mine]);
        const Mass in_bin = search_.total(counts ? row_.mass(all.logit[mine]) : Mass{0});
        if (bin_ >= 0) kept_mass_ = before + in_bin;
        last_listed_ = last;
        listed_ = last == bin;
    }

    // Adds each kept token's mass to its bin, or 1 where bins are to count.
    template <bool Counts, typename Order>
    __device__ void fill_bins(const Order& order) {
        __syncthreads();
        shared_.bins.clear();
        __syncthreads();
        const int spare = static_cast<int>(threadIdx.x) % kWarp;  // the bin that a token adds nothing to
        Mass last = 0;  // tokens of the last bin, where most may be; it has no mass
        for_accesses<N>(row_, 0, row_.size, static_cast<int>(threadIdx.x), Threads, [&](const float(&logits)[N], int) {
            int bins[N];
            Mass weights[N];
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const float position = order.position(logits[i]);
                const bool is_last = position >= kBins - 1;
                const bool kept = row_.keeps(logits[i]);
                bins[i] = kept && !is_last ? static_cast<int>(position) : spare;
                if constexpr (Counts) {
                    weights[i] = kept && !is_last ? 1 : 0;
                    last += kept && is_last ? 1 : 0;
                } else {
                    weights[i] = row_.kept_mass(logits[i]);
                }
            }
            shared_.bins.add(bins, weights);
        });
        if (last > 0) shared_.bins.add(kBins - 1, last);
        __syncthreads();
    }

    template <typename Target>
    __device__ Reached bin_reaching(const Target& target_of) {
        return search_.template reach<kBins>([&](int i) { return shared_.bins.at(i); }, target_of);
    }

    // The highest bits such that the tokens of a bin that have at least these weigh what is lacking or more, once its
    // tokens are at the list's front. They are of those that `kept` says.
    template <typename Order, typename Weight>
    __device__ unsigned threshold_in_bin(const Order& order, const Weight& weight_of, const Row& kept,
                                         const Reached& bin) {
        if (shared_.candidates.complete()) {
            const int mine = static_cast<int>(threadIdx.x);
            const bool counts = mine < shared_.candidates.front;
            const float logit = counts ? shared_.candidates.logit[mine] : row_.highest;
            return search_.threshold(bin.lacking, order.bits(logit), counts ? weight_of(logit) : Mass{0});
        }
        return search_.threshold_of_many(bin.lacking, [&](const auto& visit) {
            for_logits<N, 2>(row_, 0, row_.size, static_cast<int>(threadIdx.x), Threads, [&](float logit, int) {
                if (kept.keeps(logit) && bin_at(order.position(logit)) == bin.at)
                    visit(order.bits(logit), weight_of(logit));
            });
        });
    }

    // ---- The list ----

    enum class Place : uint8_t { none, front, back };

    // Lists tokens where place_of(logit) says.
    template <typename PlaceOf>
    __device__ void list(const PlaceOf& place_of) {
        __syncthreads();
        if (threadIdx.x == 0) shared_.candidates.clear();
        __syncthreads();
        for_accesses<N>(row_, 0, row_.size, static_cast<int>(threadIdx.x), Threads,
                        [&](const float(&logits)[N], int first) {
                            Place places[N];
                            bool any = false;
#pragma unroll
                            for (int i = 0; i < N; ++i) {
                                places[i] = place_of(logits[i]);
                                any |= places[i] != Place::none;
                            }
                            if (!any) return;
#pragma unroll
                            for (int i = 0; i < N; ++i) {
                                if (places[i] == Place::front) shared_.candidates.add_front(logits[i], first + i);
                                if (places[i] == Place::back) shared_.candidates.add_back(logits[i], first + i);
                            }
                        });
        __syncthreads();
    }

    // Lists the kept tokens that `wanted` says, at the front.
    template <typename Wanted>
    __device__ void collect(const Wanted& wanted) {
        list([&](float logit) {
            const bool is_wanted = wanted(logit);
            return is_wanted && row_.keeps(logit) ? Place::front : Place::none;
        });
    }

    // Lists the tokens from which top-k may choose: each of the k groups with the highest logits has one at least.
    __device__ void collect_top(Mass k) {
        const bool counts = threadIdx.x < kGroups;
        const unsigned bits =
            search_.threshold(k, counts ? shared_.group_highest[threadIdx.x] : 0U, counts ? Mass{1} : Mass{0});
        const float bound = from_ordered_bits(bits);
        collect([bound](float logit) { return logit >= bound; });
    }

    // The highest bits such that the kept tokens with bits of at least that weigh target_of(the weight of all) or more,
    // where all of them are listed.
    template <typename Order, typename Weight, typename Target>
    __device__ unsigned listed_threshold(const Order& order, const Weight& weight_of, const Target& target_of) {
        Mass mine = 0;
        unsigned bits = 0;
        for_listed([&](float logit, int) {
            mine = weight_of(logit);
            bits = order.bits(logit);
        });
        const Mass target = target_of(search_.total(mine));
        return search_.threshold(target, bits, mine);
    }

    // This thread's token of the list, if it has one that is kept.
    template <typename Visit>
    __device__ void for_listed(const Visit& visit) {
        const Candidates<kCandidates>& all = shared_.candidates;
        const int mine = static_cast<int>(threadIdx.x);
        if (all.has(mine) && row_.keeps(all.logit[mine])) visit(all.logit[mine], all.token[mine]);
    }

    template <typename Visit>
    __device__ void for_row(const Visit& visit) {
        for_logits<N>(row_, 0, row_.size, static_cast<int>(threadIdx.x), Threads, visit);
    }

    // Of the row's tokens or, once all that are kept are listed, of these.
    template <typename Visit>
    __device__ void for_all(const Visit& visit) {
        if (listed_) {
            for_listed(visit);
        } else {
            for_row(visit);
        }
    }

    // ---- Sums and the highest ----

    __device__ Mass total_mass() {
        if (kept_mass_ > 0) return kept_mass_;
        Mass mine = 0;
        for_all([&](float logit, int) { mine += row_.kept_mass(logit); });
        return search_.total(mine);
    }

    // The highest logit of the row, for all threads, and those of the groups in shared memory. Its token is kNoToken
    // where there is none above minus infinity, or a NaN, which wins against plus infinity.
    __device__ Candidate find_highest() {
        Candidate best{-INFINITY, kNoToken};
        bool damaged = false;
        for_row([&](float logit, int token) {
            damaged |= isnan(logit);
            if (logit > best.logit) best = {logit, token};
        });
        if (damaged) best = {INFINITY, kNoToken};
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
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        if (lane == 0) {
            shared_.warp_logit[warp] = best.logit;
            shared_.warp_token[warp] = best.token;
        }
        __syncthreads();
        return warp_best({shared_.warp_logit[lane % kWarps], shared_.warp_token[lane % kWarps]});
    }

    // One pass for each of the `top` tokens: too many have equal logits to be listed.
    template <typename Logprob>
    __device__ void find_top_one_by_one(int top, const Logprob& logprob, TokenLogprob* answers) {
        Candidate before{INFINITY, -1};
        for (int rank = 0; rank < top; ++rank) {
            __syncthreads();
            Candidate best{-INFINITY, row_.size};
            for_row([&](float logit, int token) {
                const bool follows = logit < before.logit || (logit == before.logit && token > before.token);
                if (follows) best = better(best, {logit, token});
            });
            before = block_best(best);
            if (threadIdx.x == 0) answers[rank] = {before.token, logprob(before.logit)};
        }
    }

    // ---- The draw ----

    struct Drawn {
        int token;
        Mass total;  // of all tokens that could be drawn
    };

    // The first token whose running mass, in vocabulary order, exceeds the share `uniform` of the total.
    __device__ Drawn draw_from_list(double uniform) {
        Mass mine = 0;
        unsigned key = 0;  // higher for the tokens that come first
        for_listed([&](float logit, int token) {
            mine = row_.mass(logit);
            key = ~static_cast<unsigned>(token);
        });
        const Mass total = search_.total(mine);
        return {static_cast<int>(~search_.threshold(draw_target(uniform, total) + 1, key, mine)), total};
    }

    // Each warp adds up a share of the row; then each thread a part of the share that has the token.
    __device__ Drawn draw_from_row(double uniform) {
        constexpr int kStep = kWarp * N;
        const int per_warp = ((row_.size + kWarps - 1) / kWarps + kStep - 1) / kStep * kStep;
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const int begin = warp * per_warp;
        const Mass mine = mass_of(begin, min(begin + per_warp, row_.size), lane, kWarp);
        const Sums sum = search_.sums(mine);
        const Mass target = draw_target(uniform, sum.total);
        // One lane's share is where the running mass exceeds the target; its warp has the token.
        if (sum.running - mine <= target && target < sum.running) shared_.search.found = warp;
        __syncthreads();
        const int drawn_from = shared_.search.found;
        const Mass before = warp_mass_before(drawn_from);
        const int from = drawn_from * per_warp;
        return {find_token(from, min(from + per_warp, row_.size), target - before), sum.total};
    }

    __device__ Mass warp_mass_before(int warp) const {
        Mass before = 0;
        for (int i = 0; i < warp; ++i) before += shared_.search.warp_mass[i];
        return before;
    }

    __device__ Mass mass_of(int begin, int end, int thread, int threads) const {
        Mass mass = 0;
        for_logits<N>(row_, begin, end, thread, threads, [&](float logit, int) { mass += row_.kept_mass(logit); });
        return mass;
    }

    // The first token from `begin` on whose running mass exceeds the target.
    __device__ int find_token(int begin, int end, Mass target) {
        const int per_thread = ((end - begin + Threads - 1) / Threads + N - 1) / N * N;
        const int mine = min(begin + static_cast<int>(threadIdx.x) * per_thread, end);
        const Mass mass = mass_of(mine, min(mine + per_thread, end), 0, 1);
        Mass running = search_.sums(mass).running - mass;
        if (running <= target && target < running + mass) {
            int token = mine;
            while (true) {
                const float logit = row_.logit(token);
                running += row_.kept_mass(logit);
                if (running > target) break;
                ++token;
            }
            shared_.search.found = token;
        }
        __syncthreads();
        return shared_.search.found;
    }

    Row row_;
    Shared& shared_;
    Search<Threads> search_;
    bool listed_ = false;  // all tokens that are kept are in the list
    int bin_ = -1;  // while there are bins by logit: the last one of which tokens may be kept; -1: there are none
    bool bins_count_ = false;  // they hold how many tokens, not their masses
    float least_in_bins_ = 0;  // of the logits in the bins
    Mass lacking_ = 0;         // what tokens of bin_ are to weigh, while the bound is left open; 0: row_ has it
    Mass kept_mass_ = 0;       // of all tokens that are kept; 0: not known
    int last_listed_ = -1;     // the tokens of the bins up to this one are in the list
};

}  // namespace nanolith::cuda
