// Launches with one warp for each head of each row: rows along the grid's x, four heads a block along its y.
#pragma once

#include <climits>
#include <cstdint>

#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

constexpr int kHeadWarps = 4;  // of a block

// What a warp of such a launch works on. In the last block of a row `head` may be num_heads or more: nothing to do.
struct HeadWarp {
    int row;
    int head;
    int lane;
};

__device__ inline HeadWarp head_warp() {
    return {static_cast<int>(blockIdx.x),
            static_cast<int>(blockIdx.y) * kHeadWarps + static_cast<int>(threadIdx.x) / kWarp,
            static_cast<int>(threadIdx.x) % kWarp};
}

// Whether a grid has room for so many rows.
inline Result<void> check_grid_rows(int64_t rows) {
    constexpr int64_t kMaxGridRows = INT_MAX;
    if (rows <= kMaxGridRows) return {};
    return fail(NL_ERROR_UNSUPPORTED, "num_rows is ", rows, ", a CUDA launch takes at most ", kMaxGridRows);
}

inline Result<LaunchShape> head_warps(int64_t rows, int heads) {
    NL_TRY(check_grid_rows(rows));
    const int blocks = (heads + kHeadWarps - 1) / kHeadWarps;
    return LaunchShape{dim3(static_cast<unsigned>(rows), static_cast<unsigned>(blocks)), dim3(kHeadWarps * kWarp)};
}

}  // namespace nanolith::cuda
