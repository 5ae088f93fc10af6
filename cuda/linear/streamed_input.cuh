// The activations of a streamed product: all threads of the block together copy them to shared memory, rounded to T.
#pragma once

#include <cstddef>

#include "device/number.cuh"
#include "device/prefetch.cuh"
#include "device/reduce.cuh"
#include "linear/chunk_ring.cuh"
#include "linear/matvec.h"

namespace nanolith::cuda {

// The block's eight warps divided among the rows of x: each row has eight, four, two or one of them.
struct WarpsOfRow {
    int log_count;  // of the warps
    int row;
    int thread;  // the calling one's number among the row's threads

    __device__ explicit WarpsOfRow(int rows)
        : log_count(rows == 1   ? 3
                    : rows == 2 ? 2
                    : rows <= 4 ? 1
                                : 0),
          row(static_cast<int>(threadIdx.x) / kWarp >> log_count),
          thread(static_cast<int>(threadIdx.x) % threads()) {
        static_assert(kStreamedWarps == 8);
    }
    [[nodiscard]] __device__ int threads() const { return kWarp << log_count; }
};

// RMSNorm of rows of the residual stream, rounded to T.
template <typename T>
struct NormedX {
    NormedRows<T> rows;

    // What can be fetched before the launches before this one have ended.
    __device__ void prefetch_norm() const {
        prefetch_by_block(rows.norm.weight, rows.size * static_cast<int>(sizeof(float)));
    }

    // Writes the rows to `x` in shared memory, each `row_bytes` bytes behind the one before.
    __device__ void load(std::byte* x, int row_bytes) const {
        __shared__ float squares[kStreamedWarps];
        const WarpsOfRow mine(rows.rows);
        const bool has_row = mine.row < rows.rows;
        const int index = !has_row ? 0 : rows.row_index != nullptr ? rows.row_index[mine.row] : mine.row;
        const auto* const from =
            reinterpret_cast<const float4*>(rows.residual + static_cast<int64_t>(index) * rows.size);
        const int packs = has_row ? rows.size / 4 : 0;
        float sum = 0;
#pragma unroll 4
        for (int i = mine.thread; i < packs; i += mine.threads()) {
            const float4 v = from[i];
            sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
        sum = warp_sum(sum);
        if (threadIdx.x % kWarp == 0) squares[threadIdx.x / kWarp] = sum;
        __syncthreads();
        sum = 0;
#pragma unroll
        for (int warp = 0; warp < kStreamedWarps; ++warp) {
            if (warp >> mine.log_count == mine.row) sum += squares[warp];
        }
        const float scale = rsqrtf(sum / static_cast<float>(rows.size) + rows.norm.epsilon);

        const auto* const weights = reinterpret_cast<const float4*>(rows.norm.weight);
        std::byte* const to = x + mine.row * row_bytes;
#pragma unroll 4
        for (int i = mine.thread; i < packs; i += mine.threads()) {
            const float4 v = from[i];
            const float4 w = weights[i];
            const T rounded[4] = {from_float<T>(v.x * scale * w.x), from_float<T>(v.y * scale * w.y),
                                  from_float<T>(v.z * scale * w.z), from_float<T>(v.w * scale * w.w)};
            uint2 packed;
            memcpy(&packed, rounded, sizeof packed);
            *reinterpret_cast<uint2*>(to + 8 * i) = packed;
        }
    }
};

// Rows as they are.
template <typename T>
struct PlainX {
    struct {
        const T* x;  // [rows, size]
        int rows;
        int size;
    } rows;

    __device__ void prefetch_norm() const {}

    __device__ void load(std::byte* x, int row_bytes) const {
        const WarpsOfRow mine(rows.rows);
        if (mine.row >= rows.rows) return;
        const auto* const from = reinterpret_cast<const uint4*>(rows.x + static_cast<int64_t>(mine.row) * rows.size);
        auto* const to = reinterpret_cast<uint4*>(x + mine.row * row_bytes);
#pragma unroll 4
        for (int i = mine.thread; i < rows.size / kPack<T>; i += mine.threads()) to[i] = from[i];
    }
};

}  // namespace nanolith::cuda
