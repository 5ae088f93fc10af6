// Sums over a block's threads, and where running sums reach a target. All threads of the block call these functions
// and get the same results, unless a comment says otherwise.
#pragma once

#include "sample/bins.cuh"

namespace nanolith::cuda {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kMostThreads = 1024;
constexpr int kMostItems = 512;  // of a threshold among items of the threads

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
    Mass weights[kMostItems];
    unsigned keys[kMostItems];
    unsigned key;
    int num_items;
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
    // weight of all. for_each(visit) calls visit(key, weight) for any number of items of this thread. By a radix
    // select: each round decides 8 bits.
    template <typename ForEach>
    __device__ unsigned threshold_of_many(Mass target, const ForEach& for_each) {
        unsigned prefix = 0;
#pragma unroll 1
        for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
            const unsigned decided = shift + kDigitBits == 32 ? 0U : ~0U << (shift + kDigitBits);
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
            prefix |= static_cast<unsigned>(kDigits - 1 - digit.at) << shift;
        }
        return prefix;
    }

    // The same where each thread has one item, of weight 0 where it has none; they are at most kMostItems. Each is
    // compared with all others, which is less work than sorting while they are few hundreds.
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
        const int thread = static_cast<int>(threadIdx.x);
        __syncthreads();
        if (thread == 0) {
            memory.num_items = 0;
            memory.key = 0;
        }
        __syncthreads();
        const unsigned lanes = __ballot_sync(kAllLanes, weight > 0);
        int place = lane() == 0 ? atomicAdd(&memory.num_items, __popc(lanes)) : 0;
        place = __shfl_sync(kAllLanes, place, 0) + __popc(lanes & ((1U << lane()) - 1));
        if (weight > 0) {
            memory.keys[place] = key;
            memory.weights[place] = weight;
        }
        __syncthreads();
        if (thread < memory.num_items) {
            const unsigned mine = memory.keys[thread];
            Mass sum = 0;
            const int count = memory.num_items;
            for (int i = 0; i < count; ++i) sum += memory.keys[i] >= mine ? memory.weights[i] : Mass{0};
            if (sum >= target) atomicMax(&memory.key, mine);
        }
        __syncthreads();
        return memory.key;
    }

    SearchMemory& memory_;
};

}  // namespace nanolith::cuda
