// Compact weights as float32, by the formula of backend/compact_weight.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compact/codes.cuh"
#include "compact/layout.h"
#include "device/number.cuh"

namespace nanolith::cuda {

// The scales of one row of a block in global memory.
struct RowScales {
    const CompactLayout& layout;
    const std::byte* block;
    int row;  // of the tile

    [[nodiscard]] __device__ float of_row() const { return reinterpret_cast<const float*>(block)[row]; }
    // With the row's scale in it, unless they are float16.
    [[nodiscard]] __device__ float scale(int group) const {
        if (layout.scales == ScaleKind::none) return 1;
        const std::byte* const from = block + layout.group_scales();
        if (layout.scales != ScaleKind::two) return half_at(from, group);
        const auto factor = reinterpret_cast<const uint8_t*>(from)[row * layout.groups() + group];
        return of_row() * static_cast<float>(static_cast<int>(factor) - kFactorZero);
    }
    [[nodiscard]] __device__ float min(int group) const {
        if (!layout.mins) return 0;
        const std::byte* const from = block + layout.group_mins();
        if (layout.scales == ScaleKind::half) return half_at(from, group);
        const auto factor = reinterpret_cast<const int8_t*>(from)[row * layout.groups() + group];
        if (layout.scales == ScaleKind::zeros) return scale(group) * static_cast<float>(factor);
        return reinterpret_cast<const float*>(block + layout.row_mins())[row] * static_cast<float>(factor);
    }
    // A weight of a group with these numbers.
    [[nodiscard]] __device__ float weight(float code, float scale, float min) const {
        const float weight = __fsub_rn(__fmul_rn(scale, code), min);
        return layout.scales == ScaleKind::two ? weight : of_row() * weight;
    }

  private:
    [[nodiscard]] __device__ float half_at(const std::byte* from, int group) const {
        return __half2float(reinterpret_cast<const __half*>(from)[row * layout.groups() + group]);
    }
};

// Code `i` of the four that a lane has of a row in one step: in `word`, of which rows 8 to 15 (half 1) have the bits
// from 4 on if codes have 4 bits.
template <CodeKind kCodes>
__device__ float code_of(uint32_t word, int half, int i, int zero) {
    if constexpr (kCodes == CodeKind::bits4) {
        const uint32_t codes = turned(word, kBits4Turn);
        return static_cast<float>(static_cast<int>(codes >> (8 * (i / 2) + 16 * (i % 2) + 4 * half) & 15U) - zero);
    } else {
        const uint32_t byte = word >> (8 * (i / 2) + 16 * (i % 2)) & 0xFFU;
        if constexpr (kCodes == CodeKind::int8) return static_cast<float>(static_cast<int8_t>(byte));
        const float2 wide = __half22float2(as_pair<__half>(pair_of_e4m3<__half, false>(byte)));
        return wide.x * kCodeFactor<__half, CodeKind::e4m3>;
    }
}

// One weight.
template <CodeKind kCodes>
__device__ float compact_weight(const CompactMatrix& matrix, int row, int column) {
    const CompactLayout& layout = matrix.layout;
    const int block_column = column % kCompactColumns;
    const std::byte* const block = matrix.tiles + row / kCompactTile * layout.tile_bytes(matrix.size) +
                                   column / kCompactColumns * layout.block_bytes(kCompactColumns);
    const int step = block_column % kCompactUnit / 16;
    const int in_step = column % 16;
    const int lane = row % 8 * 4 + in_step % 8 / 2;
    const int half = row % kCompactTile / 8;
    const std::byte* const line = block + layout.code_offset() + block_column / kCompactUnit * layout.line_bytes();
    const int word = kCodes == CodeKind::bits4 ? lane * 4 + step : step / 2 * 128 + lane * 4 + step % 2 * 2 + half;
    const float code = code_of<kCodes>(reinterpret_cast<const uint32_t*>(line)[word], half,
                                       in_step / 8 * 2 + in_step % 2, layout.zero);
    const RowScales scales{layout, block, row % kCompactTile};
    const int group = block_column / layout.group;
    return scales.weight(code, scales.scale(group), scales.min(group));
}

}  // namespace nanolith::cuda
