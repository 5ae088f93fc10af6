// Tiling: a warp takes 64 columns of a tile at a time, whose codes are one or two loads of 16 bytes for each lane. The
// four lanes that have 32 columns of a row between them exchange pairs of weights, after which each has eight adjacent
// ones and writes them with one store.
//
// Bytes: those of the codes and scales to read, sizeof(T) a weight to write. Bound by memory, or by L2 where the
// weights are few enough to stay there until they are multiplied.
#include "compact/expand.h"

#include "compact/numbers.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 8;

// Writes N adjacent columns, those of them that the row has.
template <typename T, int N>
__device__ void store_columns(const float (&weights)[N], int column, int size, T* row) {
    if (size % N == 0) {
        if (column < size) store_values<T, N>(row + column, weights);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (column + i < size) row[column + i] = from_float<T>(weights[i]);
    }
}

// The words of the 64 columns that the calling lane has.
template <CodeKind kCodes>
struct LineCodes {
    static constexpr int kWords = kCodes == CodeKind::bits4 ? 4 : 8;
    uint32_t words[kWords];

    __device__ LineCodes(const std::byte* line, int lane) {
#pragma unroll
        for (int i = 0; i < kWords / 4; ++i) {
            const uint4 four = reinterpret_cast<const uint4*>(line)[i * kWarp + lane];
            words[4 * i] = four.x;
            words[4 * i + 1] = four.y;
            words[4 * i + 2] = four.z;
            words[4 * i + 3] = four.w;
        }
    }
    // Codes of row g (half 0) or g + 8 in the step.
    __device__ void codes(int step, int half, int zero, float* to) const {
        const uint32_t word = words[kCodes == CodeKind::bits4 ? step : 2 * step + half];
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = code_of<kCodes>(word, half, i, zero);
    }
};

// Of four lanes, lane c has pairs of adjacent columns: columns 2 c of each eight of 32. Afterwards it has columns 8 c
// to 8 c + 7. All lanes of the warp make the call.
__device__ void make_adjacent(float (&weights)[8], int c) {
    // Pairs `low` and `high` are exchanged with the lane whose number differs in `bit`, one each.
    const auto exchange = [&](int low, int high, int bit) {
        const bool sends_low = (c & bit) != 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float& first = weights[2 * low + i];
            float& second = weights[2 * high + i];
            const float got = __shfl_xor_sync(kAllLanes, sends_low ? first : second, bit);
            (sends_low ? first : second) = got;
        }
    };
    exchange(0, 1, 1);
    exchange(2, 3, 1);
    exchange(0, 2, 2);
    exchange(1, 3, 2);
}

template <typename T, CodeKind kCodes>
__global__ void __launch_bounds__(kWarps* kWarp)
    expand_kernel(const CompactMatrix matrix, int first_tile, int num_tiles, T* to) {
    const CompactLayout& layout = matrix.layout;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int lines = (matrix.size + kCompactUnit - 1) / kCompactUnit;
    const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
    const int tile = warp / lines;
    const int column = warp % lines * kCompactUnit;
    if (tile >= num_tiles) return;
    const std::byte* const block = matrix.tiles + (first_tile + tile) * layout.tile_bytes(matrix.size) +
                                   column / kCompactColumns * layout.block_bytes(kCompactColumns);
    const int block_column = column % kCompactColumns;
    const LineCodes<kCodes> line(block + layout.code_offset() + block_column / kCompactUnit * layout.line_bytes(),
                                 lane);
    const int g = lane / 4;
    const int c = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t row =
            matrix.gated ? (half * num_tiles + tile) * (kCompactTile / 2) + g : tile * kCompactTile + 8 * half + g;
        T* const to_row = to + row * matrix.size;
        const RowScales scales{layout, block, g + 8 * half};
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {  // of steps
            float weights[8];
            line.codes(2 * pair, half, layout.zero, weights);
            line.codes(2 * pair + 1, half, layout.zero, weights + 4);
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int group = (block_column + 32 * pair + 16 * part) / layout.group;
                const float scale = scales.scale(group);
                const float min = scales.min(group);
#pragma unroll
                for (int i = 0; i < 4; ++i) weights[4 * part + i] = scales.weight(weights[4 * part + i], scale, min);
            }
            make_adjacent(weights, c);
            store_columns(weights, column + 32 * pair + 8 * c, matrix.size, to_row);
        }
    }
}

}  // namespace

template <typename T>
Result<void> expand(const CompactMatrix& matrix, int first, int count, T* to, cudaStream_t stream) {
    const int64_t lines = (matrix.size + kCompactUnit - 1) / kCompactUnit;
    const LaunchShape shape{dim3(static_cast<unsigned>((lines * count + kWarps - 1) / kWarps)), dim3(kWarps * kWarp)};
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

template Result<void> expand(const CompactMatrix&, int, int, float*, cudaStream_t);
template Result<void> expand(const CompactMatrix&, int, int, __half*, cudaStream_t);
template Result<void> expand(const CompactMatrix&, int, int, __nv_bfloat16*, cudaStream_t);

}  // namespace nanolith::cuda
