// The weights of a warp's tile on their way to a product (rounded_strip.cuh, experts/tiled_strip.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "compact/layout.h"
#include "device/mbarrier.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"

namespace nanolith::cuda {

// A warp's ring in shared memory, through which the blocks of one tile pass in order. All lanes must make every call.
template <typename Traits>
class TiledRing {
  public:
    // An empty ring of `stages` stages: none for a warp that has no tile.
    __device__ TiledRing(const CompactMatrix& matrix, std::byte* blocks, uint64_t* filled, int stages)
        : size_(matrix.size), blocks_(blocks), filled_(filled), stages_(stages) {
        if (lane() == 0) {
            for (int i = 0; i < stages; ++i) barrier_init(filled + i, 1);
            fence_barrier_init();
        }
        __syncwarp();
    }

    // Starts to fetch the blocks [first, end) of the tile at `tile`, as many as the ring has stages. A warp that has no
    // tile passes first == end. Before the next call all of these blocks must have been passed by advance(), and no
    // thread may use the ring's memory any more.
    __device__ void start(const std::byte* tile, int first, int end) {
        from_ = tile;
        fetched_ = first;
        end_ = end;
        for (int i = 0; i < stages_; ++i) {
            const int stage = stage_ + i;
            fetch(stage < stages_ ? stage : stage - stages_);
        }
    }

    [[nodiscard]] __device__ const std::byte* block() const { return blocks_ + stage_ * kStage; }
    __device__ void wait() const { barrier_wait(filled_ + stage_, parity_, "compact weights"); }
    // Goes to the next block of the ring. The buffer of the block before is free then, and a further block of the tile
    // is fetched into it.
    __device__ void advance() {
        __syncwarp();  // all lanes have read the block
        fetch(stage_);
        if (++stage_ == stages_) {
            stage_ = 0;
            parity_ ^= 1U;
        }
    }

  private:
    static constexpr int kStage = Traits::layout().block_bytes(kCompactColumns);
    __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

    __device__ void fetch(int stage) {
        if (fetched_ >= end_) return;
        if (lane() == 0) {
            const int columns = min(kCompactColumns, size_ - fetched_ * kCompactColumns);
            const auto bytes = static_cast<uint32_t>(Traits::layout().block_bytes(columns));
            barrier_arrive_expect(filled_ + stage, bytes);
            bulk_load(blocks_ + stage * kStage, from_ + static_cast<int64_t>(fetched_) * kStage, bytes,
                      filled_ + stage);
        }
        ++fetched_;
    }

    const std::byte* from_ = nullptr;
    const int size_;
    std::byte* blocks_;
    uint64_t* filled_;
    const int stages_;
    int fetched_ = 0;
    int end_ = 0;
    int stage_ = 0;
    uint32_t parity_ = 0;
};

}  // namespace nanolith::cuda
