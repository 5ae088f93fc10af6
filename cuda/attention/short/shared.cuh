// A block of the short kernel: which tiles of which sequence it has, and its shared memory.
#pragma once

#include <cstddef>

#include "attention/short/short.h"
#include "device/async_copy.cuh"
#include "device/cluster.cuh"
#include "device/dynamic_shared.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda::short_attention {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;

// In elements: where a token's key (`which` 0) or value (1) lies in the pages.
__device__ inline int64_t page_offset(const HeadShape& shape, int page, int which, int kv_head, int token) {
    const int64_t tile = (static_cast<int64_t>(page) * 2 + which) * shape.num_kv_heads + kv_head;
    return (tile * shape.page_size + token) * shape.head_dim;
}

template <typename T, int kDim>
struct Block {
    ShortSizes sizes;
    std::byte* shared;
    int rank;  // in the cluster
    int kv_head;
    int heads_per_kv;
    ShortSequence sequence;
    ShortShare share;  // of the sequence's tiles
    const ShortTile* tiles;
    const ShortRow* rows;  // of the sequence
    const int* bases;      // of each rotation
    int num_rotations = 1;
    int num_senders;  // blocks of the cluster that have tiles, the first ones

    __device__ Block(const ShortArguments<T>& a, const HeadShape& shape, const ShortSizes& room)
        : sizes(room),
          shared(dynamic_shared()),
          rank(cluster_rank()),
          kv_head(static_cast<int>(blockIdx.y) % shape.num_kv_heads),
          heads_per_kv(shape.num_heads / shape.num_kv_heads),
          sequence(a.work.sequences[static_cast<int>(blockIdx.y) / shape.num_kv_heads]),
          share(short_share(sequence.num_tiles, room.cluster, rank)),
          tiles(reinterpret_cast<const ShortTile*>(shared + room.list())),
          rows(reinterpret_cast<const ShortRow*>(shared + room.rows())),
          bases(reinterpret_cast<const int*>(shared + room.bases())) {
        sizes.dim = kDim;  // which it is: what is computed from it becomes constant
        const int each = max(1, short_tiles_each(sequence.num_tiles, sizes.cluster));
        num_senders = (sequence.num_tiles + each - 1) / each;
        read_lists(a.work);
        __syncthreads();
        if (num_tiles() > 0) num_rotations = tiles[num_tiles() - 1].rotation + 1;
    }

    [[nodiscard]] __device__ int num_tiles() const { return share.end - share.first; }
    [[nodiscard]] __device__ int num_vectors() const { return sequence.num_rows * heads_per_kv; }
    [[nodiscard]] __device__ int vector_tiles() const { return (num_vectors() + 15) / 16; }
    // The row of a vector, of the last row for those behind it; counted in the sequence.
    [[nodiscard]] __device__ int row_of(int vector) const {
        return sequence.num_rows == 1 ? 0 : min(vector / heads_per_kv, sequence.num_rows - 1);
    }

    // Rows of kDim elements.
    [[nodiscard]] __device__ T* key(int token) const { return row(0, token); }
    [[nodiscard]] __device__ T* value(int token) const { return row(sizes.values(), token); }
    [[nodiscard]] __device__ T* query(int rotation, int vector) const {
        return row(sizes.queries(), rotation * sizes.vectors + vector);
    }
    // The weights of a unit, a tile with 16 vectors, as the lanes' operands of the product with values.
    [[nodiscard]] __device__ uint4* weights(int tile, int vector_tile) const {
        return reinterpret_cast<uint4*>(shared + sizes.weights()) + (tile * (sizes.vectors / 16) + vector_tile) * kWarp;
    }
    // Of a tile's weights, for each vector: their reference (the highest score) and their sum.
    [[nodiscard]] __device__ float2* sums(int tile) const {
        return reinterpret_cast<float2*>(shared + sizes.sums()) + tile * sizes.vectors;
    }
    // What block `from` of the cluster has sent: 16 elements of a vector's output of the block's slice number `slice`,
    // and each vector's reference and sum.
    [[nodiscard]] __device__ float* sent(int from, int slice, int vector) const {
        return reinterpret_cast<float*>(shared + sizes.sent()) +
               ((from * sizes.most_slices() + slice) * sizes.vectors + vector) * 16;
    }
    [[nodiscard]] __device__ float2* sent_sums(int from) const {
        return reinterpret_cast<float2*>(shared + sizes.sent_sums()) + from * sizes.vectors;
    }

    // Starts to copy the tiles' keys and values, without those that are made in this launch.
    __device__ void fetch_tiles(const T* pages, const HeadShape& shape) const {
        constexpr int kParts = kDim / 8;  // of 16 bytes in a row
        const int parts = num_tiles() * 2 * kShortTokens * kParts;
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) {
            const int part = i % kParts;
            const int token = i / kParts % kShortTokens;
            const int which = i / kParts / kShortTokens % 2;
            const int index = i / kParts / kShortTokens / 2;
            const ShortTile& tile = tiles[index];
            if ((tile.fresh >> token & 1) != 0) continue;
            const T* const from = pages + page_offset(shape, tile.page, which, kv_head,
                                                      (tile.first_token & (shape.page_size - 1)) + token);
            T* const to = which == 0 ? key(index * kShortTokens + token) : value(index * kShortTokens + token);
            const bool exists = token < tile.count && part * 8 < shape.head_dim;
            copy_async(to + part * 8, exists ? from + part * 8 : pages, exists);
        }
        commit_copies();
    }

  private:
    [[nodiscard]] __device__ T* row(int array, int index) const {
        return reinterpret_cast<T*>(shared + array + index * sizes.row_bytes());
    }

    __device__ void read_lists(const ShortView& work) const {
        const int thread = static_cast<int>(threadIdx.x);
        auto* const to = reinterpret_cast<ShortTile*>(shared + sizes.list());
        auto* const to_bases = reinterpret_cast<int*>(shared + sizes.bases());
        const ShortTile* const from = work.tiles + sequence.first_tile + share.first;
#pragma unroll 1
        for (int i = thread; i < num_tiles(); i += kThreads) {
            const ShortTile tile = from[i];
            to[i] = tile;
            if (i == 0 || from[i - 1].rotation != tile.rotation) to_bases[tile.rotation] = tile.base;
        }
        if (thread < sequence.num_rows) {
            reinterpret_cast<ShortRow*>(shared + sizes.rows())[thread] = work.rows[sequence.first_row + thread];
        }
    }
};

}  // namespace nanolith::cuda::short_attention
