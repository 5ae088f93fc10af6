// Rows of activations in shared memory for products of compact weights with up to 64 of them: as operands B of wgmma
// (device/wgmma.cuh), K-major, 256 columns a stage, those of each 64 columns together.
#pragma once

#include <algorithm>

#include "compact/means.cuh"
#include "device/async_copy.cuh"
#include "device/mbarrier.cuh"
#include "device/wgmma.cuh"

namespace nanolith::cuda {

// kRows: 16, 32 or 64, with rows that repeat the last one where there are fewer. kThreads: of the block.
template <typename T, typename Traits, int kRows, int kThreads>
class TiledX {
  public:
    static constexpr int kLineBytes = kRows * kCompactUnit * 2;  // of 64 columns
    static constexpr int kStageBytes = kCompactColumns / kCompactUnit * kLineBytes;
    // Bytes from the means of one row to the next: lanes of eight rows that read 16 bytes each find different banks.
    static constexpr int kMeansRowBytes = Traits::kMeans ? kMeanBytes<Traits> + 16 : 0;

    // x [rows, size] in device memory.
    __device__ TiledX(const T* x, int rows, int size) : x_(x), rows_(rows), size_(size) {}

    // Starts to copy columns 256 `block` and on, those that there are, to a stage.
    __device__ void fetch(int block, std::byte* stage) const {
        constexpr int kChunks = kCompactColumns / 8;  // of 16 bytes, of a row
        constexpr int kOfLine = kCompactUnit / 8;
        static_assert(kThreads / kChunks % 8 == 0);  // a thread's rows have the same place in their eight
        const int chunk = static_cast<int>(threadIdx.x) % kChunks;
        const int first = static_cast<int>(threadIdx.x) / kChunks;
        const int column = block * kCompactColumns + 8 * chunk;
        if (column >= size_) return;
        std::byte* const to = stage + chunk / kOfLine * kLineBytes + ((chunk % kOfLine) ^ (first % 8)) * 16;
#pragma unroll
        for (int row = first; row < kRows; row += kThreads / kChunks) {
            copy_async(to + row * kCompactUnit * 2, x_ + static_cast<int64_t>(min(row, rows_ - 1)) * size_ + column,
                       true);
        }
    }

    // The operand B of step `step` of the line, 16 columns.
    __device__ static uint64_t operand(const std::byte* stage, int line, int step) {
        constexpr uint32_t kEightRows = 8 * kCompactUnit * 2;
        return wgmma_operand(shared_address(stage + line * kLineBytes + step * 32), kEightRows);
    }

    // Writes the means of all groups of a stage that has `lines` times 64 columns: zeros of the others. Products with
    // ones add up the columns.
    __device__ static void write_means(const std::byte* stage, int lines, std::byte* means) {
        constexpr int kOctets = kRows / 8;
        constexpr int kLines = kCompactColumns / kCompactUnit;
        const int warp = static_cast<int>(threadIdx.x) / 32;
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const int row = 8 * (warp % kOctets) + lane % 8;
        std::byte* const to = means + (8 * (warp % kOctets) + 2 * (lane % 4)) * kMeansRowBytes;
        for (int line = warp / kOctets; line < kLines; line += kThreads / 32 / kOctets) {
            const std::byte* const of_row = stage + line * kLineBytes + row * kCompactUnit * 2;
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                uint32_t b[4] = {};
                if (line < lines) load_matrices(b, of_row + (((4 * pair + lane / 8) ^ (row % 8)) * 16));
                put_means(b, 2 * line + pair, to);
            }
        }
    }

  private:
    static constexpr bool kNarrow = Traits::kGroup == 16;

    // Puts the means of 32 columns of eight rows, number `pair` of the stage, given as operands B of two steps.
    // `means`: those of row 2 c of the eight.
    __device__ static void put_means(const uint32_t (&b)[4], int pair, std::byte* means) {
        constexpr uint32_t kOne = kIsBFloat16<T> ? 0x3F803F80U : 0x3C003C00U;
        constexpr uint32_t kOnes[4] = {kOne, kOne, kOne, kOne};
        float sums[4];
        multiply(sums, kOnes, b[0], b[1], T());
        if constexpr (kNarrow) {
            put_group(sums, 2 * pair, means);
            multiply(sums, kOnes, b[2], b[3], T());
            put_group(sums, 2 * pair + 1, means);
        } else {
            multiply_add(sums, kOnes, b[2], b[3], T());
            put_group(sums, pair, means);
        }
    }
    // All rows of the product have the same sums: those of two rows of x in each lane.
    __device__ static void put_group(const float (&sums)[4], int group, std::byte* means) {
        if (static_cast<int>(threadIdx.x) % 32 / 4 != group % 8) return;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            put_mean(sums[i] / Traits::kGroup, reinterpret_cast<T*>(means + i * kMeansRowBytes) + group,
                     Traits::kGroups);
        }
    }

    const T* x_;
    const int rows_;
    const int size_;
};

}  // namespace nanolith::cuda
