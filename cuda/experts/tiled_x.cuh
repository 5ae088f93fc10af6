// Rows of activations in shared memory for products of experts' compact weights with few rows. A stage has 256 columns
// of all rows, as four arrays of 64 columns ("lines"), each [rows, 64] in the K-major layout that wgmma takes as its
// operand B (device/wgmma.cuh).
#pragma once

#include "compact/means.cuh"
#include "device/async_copy.cuh"
#include "device/mbarrier.cuh"
#include "device/wgmma.cuh"

namespace nanolith::cuda {

// kRows: 16 or 32. kThreads: threads of the thread block.
template <typename T, typename Traits, int kRows, int kThreads>
class TiledX {
  public:
    static constexpr int kLineBytes = kRows * kCompactUnit * 2;  // 64 columns of all rows
    static constexpr int kStageBytes = kCompactColumns / kCompactUnit * kLineBytes;
    // Bytes from the means of one row to the next. Not a multiple of 128, so that lanes which read the same 16 bytes of
    // eight rows use different banks.
    static constexpr int kMeansRowBytes = Traits::kMeans ? kMeanBytes<Traits> + 16 : 0;

    // x [*, size] in device memory. `rows`: which kRows rows of it are multiplied, a list in shared memory.
    __device__ TiledX(const T* x, const int32_t* rows, int size) : x_(x), rows_(rows), size_(size) {}

    // Starts to copy the 256 columns from 256 `block` on, or as many as x has there, to a stage. All threads of the
    // thread block take part, each with the same eight columns of several rows.
    __device__ void fetch(int block, std::byte* stage) const {
        constexpr int kChunks = kCompactColumns / 8;  // copies of 16 bytes in a row
        constexpr int kOfLine = kCompactUnit / 8;
        // A thread's rows are a multiple of eight apart, so that the swizzle moves all its copies to the same columns.
        static_assert(kThreads / kChunks % 8 == 0);
        const int chunk = static_cast<int>(threadIdx.x) % kChunks;
        const int first = static_cast<int>(threadIdx.x) / kChunks;
        const int column = block * kCompactColumns + 8 * chunk;
        if (column >= size_) return;
        std::byte* const to = stage + chunk / kOfLine * kLineBytes + ((chunk % kOfLine) ^ (first % 8)) * 16;
#pragma unroll
        for (int row = first; row < kRows; row += kThreads / kChunks) {
            copy_async(to + row * kCompactUnit * 2, x_ + static_cast<int64_t>(rows_[row]) * size_ + column, true);
        }
    }

    // The descriptor of an operand B: the 16 columns of step `step` (0 to 3) of a line, for all rows.
    __device__ static uint64_t operand(const std::byte* stage, int line, int step) {
        constexpr uint32_t kEightRows = 8 * kCompactUnit * 2;
        return wgmma_operand(shared_address(stage + line * kLineBytes + step * 32), kEightRows);
    }

    // Computes the means (means.cuh) of all groups of a stage, of which the first `lines` lines are filled; the means
    // of the others are zero. The sums are products with a matrix of ones on the tensor cores.
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

    // Writes the means of the stage's columns 32 `pair` to 32 `pair` + 31 for eight rows of x. `b`: these columns as
    // the operands B of two steps. `means`: where the means of row 2 (lane % 4) of the eight begin.
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
    // All rows of the product with ones are the same: sums[0] and sums[1] belong to two adjacent rows of x in every
    // lane. Eight lanes have those of the same rows; one of them writes them.
    __device__ static void put_group(const float (&sums)[4], int group, std::byte* means) {
        if (static_cast<int>(threadIdx.x) % 32 / 4 != group % 8) return;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            put_mean(sums[i] / Traits::kGroup, reinterpret_cast<T*>(means + i * kMeansRowBytes) + group,
                     Traits::kGroups);
        }
    }

    const T* x_;
    const int32_t* const rows_;
    const int size_;
};

}  // namespace nanolith::cuda
