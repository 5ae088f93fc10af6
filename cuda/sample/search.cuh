// Sums over a block's threads, and where running sums reach a target. All threads of the block call these functions
// and get the same results, unless a comment says otherwise.
#pragma once

#include "sample/bins.cuh"

namespace nanolith::cuda {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kMostThreads = 1024;

// The lanes' running sum; a lane's own mass is part of its sum.
__device__ inline Mass warp_running(Mass mass) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const Mass lower = __shfl_up_sync(kAllLanes, mass, static_cast<unsigned>(step));
        if (lane >= step) mass += lower;
    }
    return mass;
}

struct SearchMemory {
    Bins<kDigits> digits;
    Mass warp_mass[kMostThreads / kWarp];
    unsigned warp_least[kMostThreads / kWarp];
    Mass lacking;
    int found;
};

// The sum over the threads up to this one, which differs from thread to thread, and over all.
struct Sums {
    Mass running;
    Mass total;
};

// A place that a running sum reaches its target at, and what the sum lacked before it.
struct Reached {
    int at;
    Mass lacking;
};

template <int Threads>
class Search {
  public:
    __device__ explicit Search(SearchMemory& memory) : memory_(memory) {}

    __device__ Sums sums(Mass mass) {
        const Mass in_warp = warp_running(mass);
        __syncthreads();
        if (lane() == kWarp - 1) memory_.warp_mass[warp()] = in_warp;
        __syncthreads();
        const Mass of_warps = warp_running(lane() < kWarps ? memory_.warp_mass[lane()] : Mass{0});
        const Mass before = __shfl_sync(kAllLanes, of_warps, max(warp() - 1, 0));
        return {(warp() == 0 ? Mass{0} : before) + in_warp, __shfl_sync(kAllLanes, of_warps, kWarps - 1)};
    }

    __device__ Mass total(Mass mass) { return sums(mass).total; }

    // Where the sum of value(0), value(1), ... reaches target_of(the sum of all `Count`), which is from 1 to that sum.
    template <int Count, typename Value, typename Target>
    __device__ Reached reach(const Value& value, const Target& target_of) {
        constexpr int kEach = (Count + Threads - 1) / Threads;
        const int first = static_cast<int>(threadIdx.x) * kEach;
        const int end = min(first + kEach, Count);
        Mass mine = 0;
        for (int i = first; i < end; ++i) mine += value(i);
        const Sums sum = sums(mine);
        const Mass before = sum.running - mine;
        const Mass target = target_of(sum.total);
        if (before < target && target <= before + mine) {
            Mass lacking = target - before;
            int at = first;
            for (Mass next = value(at); next < lacking; next = value(at)) {
                lacking -= next;
                ++at;
            }
            memory_.found = at;
            memory_.lacking = lacking;
        }
        __syncthreads();
        return {memory_.found, memory_.lacking};
    }

    // The highest key such that the items with keys of at least that weigh `target` or more, which is from 1 to the
    // weight of all. All keys have the bits of `prefix` but for their `undecided` lowest ones, where those of `prefix`
    // are 0. for_each(visit) calls visit(key, weight) for the items of this thread. By a radix select: each round
    // decides 8 bits.
    template <typename ForEach>
    __device__ unsigned threshold(Mass target, unsigned prefix, int undecided, const ForEach& for_each) {
#pragma unroll 1
        while (undecided > 0) {
            const int shift = max(undecided - kDigitBits, 0);
            const unsigned decided = undecided == 32 ? 0U : ~0U << undecided;
            __syncthreads();
            memory_.digits.clear();
            __syncthreads();
            for_each([&](unsigned key, Mass weight) {
                // The highest digit first.
                if ((key & decided) == prefix)
                    memory_.digits.add(static_cast<int>(~(key >> shift) & (kDigits - 1)), weight);
            });
            __syncthreads();
            const Reached digit =
                reach<kDigits>([&](int i) { return memory_.digits.at(i); }, [&](Mass) { return target; });
            target = digit.lacking;
            prefix |= (static_cast<unsigned>(kDigits - 1 - digit.at) << shift) & ~decided;
            undecided = shift;
        }
        return prefix;
    }

    // The same where each thread has one item; its weight is 0 where it has none.
    __device__ unsigned threshold(Mass target, unsigned key, Mass weight) {
        return threshold_of_items(memory_, target, key, weight);
    }

  private:
    static constexpr int kWarps = Threads / kWarp;
    __device__ static int lane() {
        return static_cast<int>(threadIdx.x) % kWarp;
    }
    __device__ static int warp() {
        return static_cast<int>(threadIdx.x) / kWarp;
    }

    // Not inlined, since it has many callers.
    [[gnu::noinline]] static __device__ unsigned threshold_of_items(SearchMemory& memory, Mass target, unsigned key,
                                                                    Mass weight) {
        Search search(memory);
        const unsigned least = search.least_of(weight > 0 ? key : ~0U);
        const unsigned most = ~search.least_of(weight > 0 ? ~key : ~0U);
        int undecided = 0;  // bits: the lowest ones, in which keys differ
        while (undecided < 32 && (least ^ most) >> undecided != 0) ++undecided;
        const unsigned prefix = undecided == 32 ? 0U : most >> undecided << undecided;
        return search.threshold(target, prefix, undecided, [&](const auto& visit) {
            if (weight > 0) visit(key, weight);
        });
    }

    __device__ unsigned least_of(unsigned value) {
        value = __reduce_min_sync(kAllLanes, value);
        __syncthreads();
        if (lane() == 0) memory_.warp_least[warp()] = value;
        __syncthreads();
        return __reduce_min_sync(kAllLanes, memory_.warp_least[lane() % kWarps]);
    }

    SearchMemory& memory_;
};

}  // namespace nanolith::cuda
