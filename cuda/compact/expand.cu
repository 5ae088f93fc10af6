// Tiling: a warp expands 16 rows of 64 columns. Codes are stored in the order that the tensor cores want, in which four
// lanes share a row and each lane has four separate pairs of columns in every 32. So a lane widens its pairs, the four
// lanes exchange them until each has eight adjacent weights, and each writes those with stores of 16 bytes.
//
// Bytes: codes and scales are read, sizeof(T) bytes a weight are written. About ten instructions a weight. Bound by
// writing to memory.
#include "compact/expand.h"

#include <cstring>

#include "compact/block.cuh"
#include "compact/numbers.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 8;

// Eight weights of a row, rounded to T: four pairs of adjacent ones, in words of 32 bits.
template <typename T>
struct EightWeights {
    static constexpr int kWords = sizeof(T) / 2;  // words in a pair
    uint32_t pairs[4][kWords];

    __device__ void set_pair(int i, float first, float second) {
        if constexpr (sizeof(T) == 2) {
            pairs[i][0] = pack_pair(first, second, T());
        } else {
            pairs[i][0] = __float_as_uint(first);
            pairs[i][1] = __float_as_uint(second);
        }
    }

    // Transposes the pairs of the four lanes that share 32 columns of a row. Before, pair i of lane c is columns 8 i +
    // 2 c and 8 i + 2 c + 1; afterwards lane c has columns 8 c to 8 c + 7 in order. All lanes of the warp must call it.
    __device__ void make_adjacent(int c) {
        exchange(0, 1, 1, c);
        exchange(2, 3, 1, c);
        exchange(0, 2, 2, c);
        exchange(1, 3, 2, c);
    }

    // Writes the eight weights to row[column] and on, but none beyond the row's end at `size` columns.
    __device__ void store(T* row, int column, int size) const {
        if (size % 8 == 0) {
            if (column >= size) return;
#pragma unroll
            for (int i = 0; i < kWords; ++i) {
                uint4 four;
                memcpy(&four, pairs[i * 4 / kWords], sizeof four);
                reinterpret_cast<uint4*>(row + column)[i] = four;
            }
            return;
        }
        T weights[8];
        memcpy(weights, pairs, sizeof weights);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (column + i < size) row[column + i] = weights[i];
        }
    }

  private:
    // A step of the transposition: two lanes, whose numbers differ in `bit` alone, exchange a pair of weights. The lane
    // without that bit gives its pair number `high` and gets the other lane's pair number `low`, and the other way
    // round. Each keeps what it gets where it had what it gave.
    __device__ void exchange(int low, int high, int bit, int c) {
        const bool sends_low = (c & bit) != 0;
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const uint32_t got = __shfl_xor_sync(kAllLanes, sends_low ? pairs[low][i] : pairs[high][i], bit);
            if (sends_low) {
                pairs[low][i] = got;
            } else {
                pairs[high][i] = got;
            }
        }
    }
};

template <typename T, CodeKind kCodes>
__global__ void __launch_bounds__(kWarps* kWarp)
    expand_kernel(const CompactMatrix matrix, int first_tile, int num_tiles, T* to) {
    using Exact = __nv_bfloat16;  // holds every code exactly
    const CompactLayout& layout = matrix.layout;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int lines = (matrix.size + kCompactUnit - 1) / kCompactUnit;
    const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
    const int tile = warp / lines;
    const int column = warp % lines * kCompactUnit;
    if (tile >= num_tiles) return;
    const int of_tile = matrix.rows_of_tile();
    const int rows = min(num_tiles * of_tile, matrix.outputs - first_tile * of_tile);
    to += blockIdx.y * int64_t{matrix.gated ? 2 * rows : rows} * matrix.size;
    const std::byte* const block = matrix.tiles + blockIdx.y * matrix.bytes() +
                                   (first_tile + tile) * layout.tile_bytes(matrix.size) +
                                   column / kCompactColumns * layout.block_bytes(kCompactColumns);
    const int block_column = column % kCompactColumns;
    const std::byte* const line = block + layout.code_offset() + block_column / kCompactUnit * layout.line_bytes();
    const int g = lane / 4;
    const int c = lane % 4;
    const uint32_t power = in_register(kPower<Exact, kCodes>);
    const float zero = kCodes == CodeKind::bits4 ? static_cast<float>(kBits4Zero<Exact> + layout.zero) : 0.0F;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {  // 32 columns each
        CodesOfPair<kCodes> codes;
        uint32_t a[2][4];
        codes.load(line, pair);
        codes.template widen<Exact>(power, a);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const RowScales scales{layout, block, g + 8 * half};
            EightWeights<T> weights;
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // the lane's pair in every eight columns
                const int group = (block_column + 32 * pair + 8 * i) / layout.group;
                const float scale = scales.scale(group);
                const float min = scales.min(group);
                const float2 two = unpack_pair(a[i / 2][i % 2 * 2 + half], Exact());
                weights.set_pair(i, scales.weight(two.x - zero, scale, min), scales.weight(two.y - zero, scale, min));
            }
            weights.make_adjacent(c);
            const int row = tile * of_tile + g + (matrix.gated ? 0 : 8 * half);
            if (row >= rows) continue;
            const int64_t above = matrix.gated ? half * rows : 0;
            weights.store(to + (above + row) * matrix.size, column + 32 * pair + 8 * c, matrix.size);
        }
    }
}

}  // namespace

template <typename T>
Result<void> expand(const CompactMatrix& matrix, int first, int count, T* to, cudaStream_t stream, int matrices) {
    const int64_t lines = (matrix.size + kCompactUnit - 1) / kCompactUnit;
    const dim3 grid(static_cast<unsigned>((lines * count + kWarps - 1) / kWarps), static_cast<unsigned>(matrices));
    const LaunchShape shape{grid, dim3(kWarps * kWarp)};
    switch (matrix.layout.codes) {
        case CodeKind::bits4:
            return launch(expand_kernel<T, CodeKind::bits4>, shape, stream, matrix, first, count, to);
        case CodeKind::int8:
            return launch(expand_kernel<T, CodeKind::int8>, shape, stream, matrix, first, count, to);
        case CodeKind::e4m3:
            break;
    }
    return launch(expand_kernel<T, CodeKind::e4m3>, shape, stream, matrix, first, count, to);
}

template Result<void> expand(const CompactMatrix&, int, int, float*, cudaStream_t, int);
template Result<void> expand(const CompactMatrix&, int, int, __half*, cudaStream_t, int);
template Result<void> expand(const CompactMatrix&, int, int, __nv_bfloat16*, cudaStream_t, int);

}  // namespace nanolith::cuda
