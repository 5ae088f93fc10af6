// A warpgroup's part of a staged product (staged.cu): up to two blocks of 64 weight rows times kRows rows of x.
#pragma once

#include <cstddef>

#include "device/mbarrier.cuh"
#include "device/reduce.cuh"
#include "device/wgmma.cuh"
#include "linear/staged_division.h"

namespace nanolith::cuda {

// In shared memory a line, 64 columns of some rows, lies as wgmma takes its operands. The warpgroup's first block is
// that of its number, the second one is two blocks further; warp w has the rows of tile w of each. All four warps
// make every call of add() together.
template <typename T, int kRows>
class StagedProduct {
  public:
    // `warp`: the calling one's number in the thread block. A warpgroup whose last blocks have fewer than four tiles
    // multiplies what lies behind them, too; those sums are not used.
    __device__ StagedProduct(int warp, int tiles)
        : first_row_(warp / kGroupWarps * kBlockRows),
          blocks_(blocks_from(warp / kGroupWarps * kGroupWarps, tiles)),
          tiles_(blocks_from(warp, tiles)) {}

    __device__ void clear() {
#pragma unroll
        for (auto& block : sums_) block.for_each([](float& sum) { sum = 0; });
    }

    // Adds the products of a stage of `lines` lines of x and of weights, which begin there. `line_bytes`: from one line
    // of weights to the next.
    __device__ void add(const std::byte* x, const std::byte* weights, int line_bytes, int lines) {
        if (blocks_ == 2) add_blocks<2>(x, weights, line_bytes, lines);
        if (blocks_ == 1) add_blocks<1>(x, weights, line_bytes, lines);
    }

    // Writes the warp's sums to memory [kRows][kSumsRow], each row of x by weight rows.
    template <int kSumsRow>
    __device__ void leave(float* memory) const {
        for_each([&](int row, int weight_row, float sum) { memory[row * kSumsRow + weight_row] = sum; });
    }

    // Calls put(row of x, weight row of the strip, its sum) for each of the lane's sums.
    template <typename Put>
    __device__ void for_each(const Put& put) const {
        const int lane = static_cast<int>(threadIdx.x % kWarp);
        const int tile = first_row_ / kStagedTile + static_cast<int>(threadIdx.x / kWarp % kGroupWarps);
#pragma unroll
        for (int block = 0; block < 2; ++block) {
            if (block >= tiles_) break;
#pragma unroll
            for (int octet = 0; octet < kRows / 8; ++octet) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    put(8 * octet + lane % 4 * 2 + i % 2,
                        tile * kStagedTile + block * (2 * kBlockRows) + lane / 4 + i / 2 * 8,
                        sums_[block].octets[octet][i]);
                }
            }
        }
    }

  private:
    static constexpr int kGroupWarps = 4;
    static constexpr int kBlockRows = kGroupWarps * kStagedTile;
    static constexpr uint32_t kEightRows = 8 * kStageLineBytes;

    // How many of the two blocks reach tile `tile` of the strip, or tile + kStagedWarps.
    __device__ static int blocks_from(int tile, int tiles) {
        return tile >= tiles ? 0 : tile + kStagedWarps >= tiles ? 1 : 2;
    }

    template <int kBlocks>
    __device__ void add_blocks(const std::byte* x, const std::byte* weights, int line_bytes, int lines) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) wgmma_hold(sums_[block]);
        weights += first_row_ * kStageLineBytes;
#pragma unroll 1
        for (int line = 0; line < lines; ++line) {
            const uint64_t a = wgmma_operand(shared_address(weights + line * line_bytes), kEightRows);
            const uint64_t b = wgmma_operand(shared_address(x + line * (kRows * kStageLineBytes)), kEightRows);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < kStageLine / 16; ++step) {  // 16 columns are 32 bytes, 2 in a descriptor
#pragma unroll
                for (int block = 0; block < kBlocks; ++block) {
                    constexpr int kSecondBlock = 2 * kBlockRows * kStageLineBytes / 16;
                    Wgmma<T, kRows>::multiply_add(sums_[block], a + 2 * step + block * kSecondBlock, b + 2 * step);
                }
            }
            wgmma_commit();
        }
        wgmma_wait<0>();
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) wgmma_hold(sums_[block]);
    }

    Fragment<kRows> sums_[2];
    const int first_row_;  // of the first block in the strip
    const int blocks_;     // that the warpgroup has
    const int tiles_;      // that the warp has
};

}  // namespace nanolith::cuda
