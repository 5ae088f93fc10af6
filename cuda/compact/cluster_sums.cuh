// The partial sums of a strip of weight rows, whose columns the thread blocks of a cluster share: they are added up
// over the cluster, always in the order of the thread blocks, and become outputs.
#pragma once

#include "compact/layout.h"
#include "compact/output.cuh"
#include "compact/streamed_compact.h"
#include "device/cluster_sum.cuh"
#include "device/fragment.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// The most thread blocks of a cluster, which divide the columns of one strip of weight rows among them.
constexpr int kCompactSplits = 8;

// Partial sums in shared memory are [rows of x][sums_row(tiles)] float32: four more than the weight rows of a strip of
// so many tiles, so that the lanes of a warp, which write eight weight rows of four rows of x at once, use different
// banks.
__host__ __device__ constexpr int sums_row(int tiles) {
    return tiles * kCompactTile + 4;
}

// Which tiles of the matrix a strip has, and how many thread blocks share its columns.
struct StripTiles {
    int first;
    int count;  // some of which may lie beyond the matrix
    int splits;
};

// kTiles: most tiles of a strip; each belongs to a warp, the first one to warp 0. kThreads: threads of a thread block.
template <int kTiles, int kThreads>
class ClusterSums {
  public:
    // Writes the calling warp's partial sums, [16 weight rows, kRows rows of x], to `memory`.
    template <int kRows>
    __device__ static void leave(const Fragment<kRows>& sums, float* memory) {
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
        for (int octet = 0; octet < kRows / 8; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = 8 * octet + Fragment<kRows>::first_column(lane) + i % 2;
                memory[row * kRow + warp * kCompactTile + lane / 4 + i / 2 * 8] = sums.octets[octet][i];
            }
        }
    }

    // When all thread blocks of the cluster have left their sums in `memory`, adds up this one's share of the rows of x
    // and writes those outputs of `rows` rows of x. Returns when none reads `memory` any more. All threads of all
    // thread blocks take part.
    template <typename T>
    __device__ static void put(const float* memory, const StripTiles& strip, int rows, const CompactMatrix& matrix,
                               const CompactOutput& output) {
        __syncwarp();
        cluster_arrive();
        cluster_wait();
        const int rank = cluster_rank();
        put_rows<T>(memory, strip, rows * rank / strip.splits, rows * (rank + 1) / strip.splits, matrix, output);
        cluster_arrive_after_reading();  // a thread block must not end while others read its sums
        cluster_wait();
    }

  private:
    static constexpr int kRow = sums_row(kTiles);

    // Adds up the sums of rows [begin, end) of x and writes their outputs.
    template <typename T>
    __device__ static void put_rows(const float* memory, const StripTiles& strip, int begin, int end,
                                    const CompactMatrix& matrix, const CompactOutput& output) {
        constexpr int kTogether = 4;  // rows whose loads overlap
        // Fours of outputs in a row, and the rows that the threads have at a time.
        const int fours = kTiles * matrix.rows_of_tile() / 4;
        const int rows = kThreads / fours;
        const int thread = static_cast<int>(threadIdx.x);
        const int tile = thread % fours * 4 / matrix.rows_of_tile();
        const int r = thread % fours * 4 % matrix.rows_of_tile();
        if (tile >= min(strip.count, matrix.num_tiles() - strip.first)) return;
        const float* const at = memory + tile * kCompactTile + r;
        for (int first = begin + thread / fours; first < end; first += kTogether * rows) {
            FourOutputs<T> outputs[kTogether];
            float4 sums[kTogether];
            float4 others[kTogether] = {};
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const int row = first + i * rows;
                if (row >= end) break;
                outputs[i].begin(output, matrix, row, strip.first + tile, r);
                sums[i] = cluster_sum<kCompactSplits>(at + row * kRow, strip.splits);
                if (matrix.gated)
                    others[i] = cluster_sum<kCompactSplits>(at + row * kRow + kCompactTile / 2, strip.splits);
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const int row = first + i * rows;
                if (row >= end) break;
                outputs[i].finish(output, matrix, row, strip.first + tile, r, sums[i], others[i]);
            }
        }
    }
};

}  // namespace nanolith::cuda
