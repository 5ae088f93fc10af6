// The activations of a streamed product: all threads of the block together copy them to shared memory, rounded to T.
#pragma once

#include <cstddef>

#include "device/number.cuh"
#include "device/pair.cuh"
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
          thread(static_cast<int>(threadIdx.x) & (threads() - 1)) {
        static_assert(kStreamedWarps == 8);
    }
    [[nodiscard]] __device__ int threads() const { return kWarp << log_count; }
};

// Shared memory that gets rows of `size` activations, each `row_bytes` bytes behind the one before: as they are, or as
// ChunkRing::multiply() takes them (streamed_row_bytes).
struct RowsInShared {
    std::byte* x;
    int row_bytes;

    __device__ void put_four(int row, int i, uint2 words) const {
        *reinterpret_cast<uint2*>(x + row * row_bytes + 8 * i) = words;
    }
    __device__ void put_eight(int row, int i, uint4 words) const {
        *reinterpret_cast<uint4*>(x + row * row_bytes + 16 * i) = words;
    }
    // What belongs behind a row's elements. The row's threads call together, numbered from 0 on.
    __device__ void finish(int /*row*/, int /*size*/, int /*thread*/) const {}
};
struct StreamedRowsInShared {
    std::byte* x;
    int row_bytes;

    __device__ void put_four(int row, int i, uint2 words) const {
        auto* const to = reinterpret_cast<uint32_t*>(x + row * row_bytes + i / 2 * 16) + i % 2;
        to[0] = words.x;
        to[2] = words.y;
    }
    __device__ void put_eight(int row, int i, uint4 words) const {
        *reinterpret_cast<uint4*>(x + row * row_bytes + 16 * i) = activation_words(words);
    }
    __device__ void finish(int row, int size, int thread) const {
        static_assert(kChunkColumns / 8 <= kWarp);
        const int i = size / 8 + thread;
        if (thread < kWarp && i < chunks_of(size) * (kChunkColumns / 8)) put_eight(row, i, {});
    }
};

// RMSNorm of rows of the residual stream, rounded to T.
template <typename T>
struct NormedX {
    NormedRows<T> rows;

    // What can be fetched before the launches before this one have ended.
    __device__ void prefetch_norm() const {
        prefetch_by_block(rows.norm.weight, rows.size * static_cast<int>(sizeof(float)));
    }

    // Puts the rows where `to` says (RowsInShared).
    template <typename To>
    __device__ void load(const To& to) const {
        __shared__ float squares[kStreamedWarps];
        const WarpsOfRow mine(rows.rows);
        const bool has_row = mine.row < rows.rows;
        const int index = !has_row ? 0 : rows.row_index != nullptr ? rows.row_index[mine.row] : mine.row;
        const auto* const from =
            reinterpret_cast<const float4*>(rows.residual + static_cast<int64_t>(index) * rows.size);
        const int packs = has_row ? rows.size / 4 : 0;
        const int threads = mine.threads();
        float4 first[kBatch];  // the thread's first elements, which most rows have no more of
        float sum = 0;
        read(from, mine.thread, threads, packs, first);
        add_squares(first, sum);
#pragma unroll 1
        for (int i = mine.thread + kBatch * threads; i < packs; i += kBatch * threads) {
            float4 more[kBatch];
            read(from, i, threads, packs, more);
            add_squares(more, sum);
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
#pragma unroll 1
        for (int i = mine.thread; i < packs; i += kBatch * threads) {
            float4 of_batch[kBatch];
            read(weights, i, threads, packs, of_batch);
            if (i != mine.thread) read(from, i, threads, packs, first);
#pragma unroll
            for (int j = 0; j < kBatch; ++j) {
                if (i + j * threads >= packs) continue;
                const float4 v = first[j];
                const float4 w = of_batch[j];
                to.put_four(mine.row, i + j * threads,
                            {pack_pair(v.x * scale * w.x, v.y * scale * w.y, T()),
                             pack_pair(v.z * scale * w.z, v.w * scale * w.w, T())});
            }
        }
        if (has_row) to.finish(mine.row, rows.size, mine.thread);
    }

  private:
    static constexpr int kBatch = 4;  // loads of a thread that are under way at once

    __device__ static void read(const float4* from, int i, int step, int end, float4 (&batch)[kBatch]) {
#pragma unroll
        for (int j = 0; j < kBatch; ++j) batch[j] = i + j * step < end ? from[i + j * step] : float4{};
    }
    __device__ static void add_squares(const float4 (&batch)[kBatch], float& sum) {
#pragma unroll
        for (const float4& v : batch) sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
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

    template <typename To>
    __device__ void load(const To& to) const {
        constexpr int kBatch = 8;  // loads of a thread that are under way at once
        const WarpsOfRow mine(rows.rows);
        if (mine.row >= rows.rows) return;
        const auto* const from = reinterpret_cast<const uint4*>(rows.x + static_cast<int64_t>(mine.row) * rows.size);
        const int packs = rows.size / kPack<T>;
        const int threads = mine.threads();
#pragma unroll 1
        for (int i = mine.thread; i < packs; i += kBatch * threads) {
            uint4 batch[kBatch];
#pragma unroll
            for (int j = 0; j < kBatch; ++j) {
                if (i + j * threads < packs) batch[j] = from[i + j * threads];
            }
#pragma unroll
            for (int j = 0; j < kBatch; ++j) {
                if (i + j * threads < packs) to.put_eight(mine.row, i + j * threads, batch[j]);
            }
        }
        to.finish(mine.row, rows.size, mine.thread);
    }
};

}  // namespace nanolith::cuda
