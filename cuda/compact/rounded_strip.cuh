// A strip of compact weight rows times some rows of 16-bit activations, the weights rounded to 16 bits: what
// rounded_compact.cu and experts/grouped_rounded.cu have in common. The tiling is described in the former.
#pragma once

#include <algorithm>

#include "compact/cluster_sums.cuh"
#include "compact/rounded_weights.cuh"
#include "compact/tiled_ring.cuh"
#include "device/cluster.cuh"
#include "device/dynamic_shared.cuh"
#include "device/wgmma.cuh"
#include "runtime/tensor_map.h"

namespace nanolith::cuda {

// A thread block's share of a strip.
struct StripShare {
    int first_tile;   // the strip's first tile of 16 weight rows, counted in the matrix
    int first_row;    // the first row of x that it is multiplied with
    int splits;       // how many thread blocks of a cluster share the strip's columns
    int first_block;  // this one has the columns of the blocks of weights [first_block, end_block),
    int end_block;
    int steps;  // which are so many times 64 columns

    __device__ StripShare(const CompactMatrix& matrix, int tile, int row, int num_splits)
        : first_tile(tile), first_row(row), splits(num_splits) {
        const int rank = num_splits == 1 ? 0 : cluster_rank();
        const int blocks = compact_blocks_of(matrix.size);
        first_block = blocks * rank / splits;
        end_block = blocks * (rank + 1) / splits;
        steps = (min(end_block * kCompactColumns, matrix.size) - first_block * kCompactColumns) / kCompactUnit;
    }
};

// A thread block of kWarps warps, each of which has a tile of the strip, for up to kRows rows of x. All threads make
// every call.
template <typename T, typename Traits, int kWarps, int kRows>
class RoundedStrip {
    static constexpr int kBlock = Traits::layout().block_bytes(kCompactColumns);
    static constexpr int kLines = kCompactColumns / kCompactUnit;              // of a block of weights
    static constexpr int kMostRing = 3;                                        // stages of a warp's ring
    static constexpr int kColumnBytes = kCompactUnit * 2;                      // of a row in a stage of x
    static constexpr int kLineBytes = kRows * kColumnBytes;                    // of 64 columns of x
    static constexpr int kStageLines = kRows <= 32 ? 4 : kRows <= 64 ? 2 : 1;  // of x in a stage
    static constexpr int kStageBytes = kStageLines * kLineBytes;
    static constexpr int kXStages = 4;
    static constexpr int kXLines = kXStages * kStageLines;
    static_assert(kXLines % kLines == 0);  // the stages hold the lines of a whole number of blocks
    // How many stages ahead of the one that is being multiplied x is fetched. Where a stage has several lines, this is
    // one less than there is room for, so that the fetching thread waits for a stage that was used two stages ago,
    // which all warps have probably released, and not for the one that was used just now.
    static constexpr int kAhead = kStageLines == 1 ? kXStages - 1 : kXStages - 2;
    // Where a thread block's shared memory has what, in bytes: the stages of x are at its beginning, then come the
    // rings of weights, then the barriers. Partial sums are written over x and rings once the product is complete.
    static constexpr int kRings = kXStages * kStageBytes;
    static constexpr int kForRings = 227 * 1024 - 1024 - kRings - kXStages * 16;  // what is left once all is aligned
    static constexpr int kRingStages = std::min(kForRings / (kWarps * (kBlock + 8)), kMostRing);
    static constexpr int kBarriers =
        std::max(kRings + kWarps * kRingStages * kBlock, kRows* sums_row(kWarps) * static_cast<int>(sizeof(float)));
    static_assert(kRingStages >= 2);

    struct Barriers {
        uint64_t full[kXStages];   // a stage of x is there
        uint64_t empty[kXStages];  // all warps have multiplied it
        uint64_t rings[kWarps * kRingStages];
    };

  public:
    static constexpr int kThreads = kWarps * kWarp;
    static constexpr int kSharedBytes = kBarriers + static_cast<int>(sizeof(Barriers)) + 1024;

    // The map of x [rows, size] that multiply() takes.
    static Result<CUtensorMap> map_of(const T* x, int rows, int size) {
        TensorBox box;
        box.type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        const uint64_t sizes[4] = {static_cast<uint64_t>(size), 1, 1, static_cast<uint64_t>(rows)};
        const uint32_t extents[4] = {kCompactUnit, 1, 1, kRows};
        std::ranges::copy(sizes, box.sizes);
        std::ranges::copy(extents, box.extents);
        for (uint64_t& stride : box.strides) stride = static_cast<uint64_t>(size) * sizeof(T);
        return make_tensor_map(x, box, "activations of compact weights");
    }

    __device__ RoundedStrip(const CompactMatrix& matrix, const StripShare& share)
        : matrix_(matrix),
          share_(share),
          memory_(dynamic_shared_1024()),
          barriers_(*reinterpret_cast<Barriers*>(memory_ + kBarriers)),
          ring_(matrix, memory_ + kRings + warp() * kRingStages * kBlock, barriers_.rings + warp() * kRingStages,
                kRingStages) {
        if (threadIdx.x == 0) {
            for (int i = 0; i < kXStages; ++i) {
                barrier_init(&barriers_.full[i], 1);
                barrier_init(&barriers_.empty[i], kWarps);
            }
            fence_barrier_init();
        }
        __syncthreads();
    }

    // Starts to fetch the share's first weights. `tiles`: those of the matrix.
    __device__ void start(const std::byte* tiles) {
        // In the matrix's last strip, warps that have no tile multiply the last one, too; their sums are not written.
        const int tile = min(share_.first_tile + warp(), matrix_.num_tiles() - 1);
        tile_ = tiles + tile * Traits::layout().tile_bytes(matrix_.size);
        ring_.start(tile_, share_.first_block, share_.end_block);
    }

    // Multiplies what start() has begun to fetch with `rows` rows of x from the share's first one on, and writes the
    // outputs; `output` begins with the first of these rows.
    __device__ void multiply(const CUtensorMap* x, int rows, const CompactOutput& output) {
        Fragment<kRows> sums;
        sums.for_each([](float& sum) { sum = 0; });
        add_products(x, sums);
        if constexpr (Traits::kScales == ScaleKind::none) {
            sums.scale_rows(RowFactors<T, Traits>(tile_, static_cast<int>(threadIdx.x) % kWarp / 4).of);
        }
        __syncthreads();  // the sums overwrite x and rings, which all have read now
        using Sums = ClusterSums<kWarps, kThreads>;
        auto* const memory = reinterpret_cast<float*>(memory_);
        Sums::leave(sums, memory);
        Sums::template put<T>(memory, {share_.first_tile, kWarps, share_.splits}, rows, matrix_, output);
    }

  private:
    __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

    // Has the copy engine bring the columns of x of the share's stage number `number`, when there is room for them.
    // Called by one thread for each stage.
    __device__ void fetch(const CUtensorMap* x, int number) const {
        if (number * kStageLines >= share_.steps) return;
        const int stage = number % kXStages;
        barrier_wait(&barriers_.empty[stage], (static_cast<unsigned>(number / kXStages) & 1U) ^ 1U,
                     "an empty stage of x");
        barrier_arrive_expect(&barriers_.full[stage], kStageBytes);
#pragma unroll
        for (int line = 0; line < kStageLines; ++line) {
            const int column = (number * kStageLines + line) * kCompactUnit;
            tma_load_4d(x, memory_ + stage * kStageBytes + line * kLineBytes, &barriers_.full[stage],
                        share_.first_block * kCompactColumns + column, share_.first_row);
        }
    }
    // Whether the calling thread is the one that fetches the next x while stage number `number` is multiplied. If one
    // warp fetched for all stages, it would fall behind the other warps, and these would wait for x. So in a thread
    // block of sixteen warps the fetching passes from warp to warp. In one of eight, each warp multiplies so much for a
    // stage that the turns would cost more time than they save; warp 0 fetches there.
    __device__ static bool fetches(int number) {
        const int fetching = kWarps == 16 ? number % kWarps : 0;
        return static_cast<int>(threadIdx.x) == fetching * kWarp;
    }

    // Starts to add the product of 32 columns to `sums`, and returns when the one before is complete.
    __device__ static void add_product(uint32_t (&a)[2][4], uint64_t x, Fragment<kRows>& sums) {
        wgmma_hold(sums);
        wgmma_hold(a[0]);
        wgmma_hold(a[1]);
        wgmma_fence();
        Wgmma<T, kRows>::template multiply_add<false>(sums, a[0], x, true);
        Wgmma<T, kRows>::template multiply_add<false>(sums, a[1], x + 2, true);
        wgmma_commit();
        wgmma_wait<1>();
    }

    // Adds the products of all of the share's columns: a warpgroup's sums of 64 weight rows and kRows rows of x.
    __device__ void add_products(const CUtensorMap* x, Fragment<kRows>& sums) {
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (int number = 0; number < kAhead; ++number) fetch(x, number);
        }
        __syncwarp();
        const uint64_t operand = wgmma_operand(shared_address(memory_), 8 * kColumnBytes);
        RoundedBlock<T, Traits> weights(matrix_.layout.zero);
        uint32_t first[2][4];  // of a line's two halves
        uint32_t second[2][4];
        ring_.wait();
        weights.begin(ring_.block());
        weights.round(0, first);
        for (int begin = 0; begin < share_.steps; begin += kLines) {
            // The place of the block's first line in the stages.
            const int first_line = kXLines == kLines ? 0 : begin % kXLines;
            const auto parity = static_cast<uint32_t>(begin / kXLines) & 1U;
#pragma unroll
            for (int line = 0; line < kLines; ++line) {
                if (begin + line >= share_.steps) break;
                const uint64_t of_line = operand + (first_line + line) * (kLineBytes / 16);
                const int stage = (first_line + line) / kStageLines;
                const bool begins_stage = line % kStageLines == 0;
                if (begins_stage) barrier_wait(&barriers_.full[stage], parity, "a stage of x");
                add_product(first, of_line, sums);
                // The tensor cores have done with the line before, if there is one: x may be fetched to its stage.
                if (begins_stage && begin + line > 0 && threadIdx.x % kWarp == 0) {
                    barrier_arrive(&barriers_.empty[(stage + kXStages - 1) % kXStages]);
                }
                weights.round(2 * line + 1, second);
                add_product(second, of_line + 4, sums);
                if (begins_stage) {
                    const int number = (begin + line) / kStageLines;
                    if (fetches(number)) fetch(x, number + kAhead);
                    __syncwarp();
                }
                if (line + 1 < kLines) {
                    weights.round(2 * line + 2, first);
                } else if (begin + kLines < share_.steps) {
                    ring_.advance();
                    ring_.wait();
                    weights.begin(ring_.block());
                    weights.round(0, first);
                }
            }
        }
        wgmma_wait<0>();
        wgmma_hold(sums);
    }

    const CompactMatrix& matrix_;
    const StripShare& share_;
    std::byte* const memory_;
    Barriers& barriers_;
    TiledRing<Traits> ring_;
    const std::byte* tile_ = nullptr;  // the calling warp's
};

}  // namespace nanolith::cuda
