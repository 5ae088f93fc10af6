// What streamed products of compact weights have in common: a block's shared memory, the rings of its warps, and the
// loop over its tiles.
#pragma once

#include <algorithm>

#include "compact/layout.h"
#include "compact/means.cuh"
#include "compact/product.cuh"
#include "device/dynamic_shared.cuh"
#include "device/mbarrier.cuh"
#include "device/tma.cuh"
#include "linear/streamed_tiles.cuh"

namespace nanolith::cuda {

constexpr int kCompactGroup = 2;  // tiles between two barriers of the block
constexpr int kMostRingStages = 12;

// ---- Shared memory of a block: rings, x, means of x, partials, barriers of all rings ------------------------

// Bytes from one row of x, of `size` columns, to the next in shared memory: 16 more than a multiple of 128, so that the
// same 16 bytes of eight rows, which ldmatrix loads at once, are in different banks.
__host__ __device__ constexpr int compact_x_bytes(int size) {
    return (size * 2 + 127) / 128 * 128 + 16;
}

struct CompactShared {
    int stage = 0;   // bytes of a ring's stage: a block of weights
    int stages = 0;  // of each warp's ring: a block and a barrier each
    int x = 0;       // bytes of the rows of activations
    int means = 0;   // bytes of their means
    // Bytes of [2][kCompactGroup, warps, rows, kCompactTile] float, the warps' sums of a group of tiles.
    int partials = 0;
    int unused = 0;  // bytes that keep a second block of the same launch away
    [[nodiscard]] __host__ __device__ int rings() const { return kStreamedWarps * stages * stage; }
    [[nodiscard]] __host__ __device__ int barriers() const { return kStreamedWarps * stages * 8; }
    [[nodiscard]] int bytes() const { return rings() + x + means + partials + barriers() + unused; }
};

// Of a block that has `x_rows` rows of `size` activations in shared memory, `rows` of which meet each weight.
template <typename Traits>
CompactShared compact_shared(int rows, int x_rows, int size, SharedPart part) {
    CompactShared sizes;
    sizes.stage = Traits::layout().block_bytes(kCompactColumns);
    sizes.x = x_rows * compact_x_bytes(size);
    sizes.means = x_rows * means_row_bytes<Traits>(compact_blocks_of(size));
    sizes.partials = 2 * kCompactGroup * kStreamedWarps * rows * kCompactTile * static_cast<int>(sizeof(float));
    const int limit = (part == SharedPart::all              ? kSharedOfMultiprocessor
                       : part == SharedPart::less_than_half ? kLessThanHalf
                                                            : kMoreThanHalf) -
                      kOutsideDynamic;
    const int left = limit - sizes.x - sizes.means - sizes.partials;
    sizes.stages = std::min(left / (kStreamedWarps * (sizes.stage + 8)), kMostRingStages);
    if (part == SharedPart::more_than_half) sizes.unused = limit - sizes.bytes();
    return sizes;
}

// Where the parts of a block's shared memory are, and the tiles [first, end) that the block computes: none in some
// blocks, where there are fewer tiles than blocks.
struct PartsOfBlock {
    std::byte* rings;
    std::byte* x;
    std::byte* means;
    float* partials;
    uint64_t* filled;
    int first;
    int end;

    __device__ PartsOfBlock(const CompactShared& sizes, int num_tiles)
        : rings(dynamic_shared()),
          x(rings + sizes.rings()),
          means(x + sizes.x),
          partials(reinterpret_cast<float*>(means + sizes.means)),
          filled(reinterpret_cast<uint64_t*>(means + sizes.means + sizes.partials)),
          first(first_tile_of(blockIdx.x, num_tiles)),
          end(first_tile_of(blockIdx.x + 1, num_tiles)) {}
};

inline SharedPart shared_part(bool half, bool alone) {
    return !half ? SharedPart::all : alone ? SharedPart::more_than_half : SharedPart::less_than_half;
}

// ---- The product --------------------------------------------------------------------------------------------

// The calling warp's ring of blocks of weights. All lanes make every call. The Source tells which blocks there are:
//   blocks_of_tile(): how many a tile has;
//   columns(block): how many columns one of them has;
//   at(tile, block): where it is in device memory.
template <typename Traits, typename Source>
class CompactRing {
  public:
    // The ring of the calling warp, which it starts to fill.
    __device__ CompactRing(const Source& source, const CompactShared& sizes, const PartsOfBlock& parts)
        : source_(source), stages_(sizes.stages), end_(parts.end) {
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        blocks_ = parts.rings + warp * stages_ * kStage;
        filled_ = parts.filled + warp * stages_;
        if (lane() < stages_) barrier_init(filled_ + lane(), 1);
        fence_barrier_init();
        __syncwarp();
        next_.tile = parts.first;
        next_.skip(warp, source_.blocks_of_tile());
        fetched_ = next_;
#pragma unroll 1
        for (int i = 0; i < stages_; ++i) fetch();
    }

    // The tile that the warp's next block belongs to, and its number in that tile.
    [[nodiscard]] __device__ int tile() const {
        return next_.tile;
    }
    [[nodiscard]] __device__ int block() const {
        return next_.chunk;
    }
    // Waits for the next block and gives its address.
    __device__ const std::byte* wait() const {
        barrier_wait(filled_ + next_.stage, next_.parity, "compact weights");
        return blocks_ + next_.stage * kStage;
    }
    [[nodiscard]] __device__ int lines() const {
        return source_.columns(next_.chunk) / kCompactUnit;
    }
    // Goes to the block after it, and fetches another one to where it was.
    __device__ void advance() {
        __syncwarp();  // all lanes have read the block
        next_.advance(source_.blocks_of_tile(), stages_);
        fetch();
    }

  private:
    static constexpr int kStage = Traits::layout().block_bytes(kCompactColumns);

    __device__ static int lane() {
        return static_cast<int>(threadIdx.x) % kWarp;
    }

    __device__ void fetch() {
        if (fetched_.tile >= end_) return;
        if (lane() == 0) {
            const auto bytes = static_cast<uint32_t>(Traits::layout().block_bytes(source_.columns(fetched_.chunk)));
            uint64_t* const filled = filled_ + fetched_.stage;
            barrier_arrive_expect(filled, bytes);
            bulk_load(blocks_ + fetched_.stage * kStage, source_.at(fetched_.tile, fetched_.chunk), bytes, filled);
        }
        fetched_.advance(source_.blocks_of_tile(), stages_);
    }

    Source source_;
    int stages_;
    int end_;
    std::byte* blocks_;
    uint64_t* filled_;  // [stages] the stage's block is there
    ChunkPosition next_;
    ChunkPosition fetched_;
};

// A warp's sums of a tile, as BlockProduct adds to them.
struct CompactSums {
    float of[1][4] = {};
};

// Writes the warp's sums of a tile to partials [warps, rows, kCompactTile].
__device__ inline void write_partials(const CompactSums& sums, int rows, float* partials) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = lane % 4 * 2 + i % 2;
        if (row < rows) partials[(warp * rows + row) * kCompactTile + lane / 4 + i / 2 * 8] = sums.of[0][i];
    }
}

using CompactOutputOfThread = OutputOfThread<kCompactTile, kCompactGroup>;

// Writes the means of all groups of x.
template <typename T, typename Traits>
__device__ void write_means(const std::byte* x, int rows, int size, std::byte* means) {
    const int groups = compact_blocks_of(size) * Traits::kGroups;  // of a row, those beyond it included
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < rows * groups; i += kStreamedThreads) {
        const int row = i / groups;
        const int group = i % groups;
        auto* const to = reinterpret_cast<T*>(means + row * means_row_bytes<Traits>(compact_blocks_of(size)) +
                                              group / Traits::kGroups * kMeanBytes<Traits>) +
                         group % Traits::kGroups;
        const int column = group * Traits::kGroup;
        if (column < size) {
            write_mean(x + row * compact_x_bytes(size) + 2 * column, Traits::kGroup, to, Traits::kGroups);
        } else {
            to[0] = to[Traits::kGroups] = from_float<T>(0);
        }
    }
}

}  // namespace nanolith::cuda
