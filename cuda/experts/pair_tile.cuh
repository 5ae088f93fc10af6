// The pairs of all experts in tiles, for thread blocks that have a tile each.
#pragma once

#include <cstdint>

#include "device/reduce.cuh"

namespace nanolith::cuda {

// Pairs [first, end) of an expert.
struct PairTile {
    int expert;  // -1: there is no such tile
    int first;
    int end;
};

// Tile number `index` of those of all experts, in their order: each has up to kPairs pairs of one expert. begins
// [experts
// + 1] as in GroupedProduct. Called by whole warps.
template <int kPairs>
__device__ PairTile find_tile(const int32_t* begins, int experts, int index) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int base = 0; base < experts; base += kWarp) {
        const int expert = min(base + lane, experts - 1);
        const int first = begins[expert];
        const int end = base + lane < experts ? begins[expert + 1] : first;
        const int tiles = (end - first + kPairs - 1) / kPairs;
        int through = tiles;  // of the experts up to the lane's
        for (int step = 1; step < kWarp; step *= 2) {
            const int before = __shfl_up_sync(kAllLanes, through, step);
            if (lane >= step) through += before;
        }
        const int all = __shfl_sync(kAllLanes, through, kWarp - 1);
        if (index >= all) {
            index -= all;
            continue;
        }
        const int found = __ffs(static_cast<int>(__ballot_sync(kAllLanes, through > index))) - 1;
        const int skipped = index - __shfl_sync(kAllLanes, through - tiles, found);
        const int begin = __shfl_sync(kAllLanes, first, found) + skipped * kPairs;
        return {base + found, begin, min(begin + kPairs, __shfl_sync(kAllLanes, end, found))};
    }
    return {-1, 0, 0};
}

}  // namespace nanolith::cuda
