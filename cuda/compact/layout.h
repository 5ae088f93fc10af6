// How compact weights (backend/compact_weight.h) lie in device memory.
//
// 16 weight rows are a tile, 256 of its columns a block: one run of bytes, which kernels fetch with one copy. The last
// block of a tile has fewer columns, a multiple of 64. What a row does not have is stored as zeros. A matrix is
// [tiles][blocks of a tile]; where it is a gate with its up projection, a tile's rows 0 to 7 are of gate and its rows 8
// to 15 the same outputs of up.
//
// A block begins with its scales, each array by row, [16] or [16][groups]; groups of more than 32 columns are stored as
// several of 32:
//   ScaleKind::none:  the rows' scales, float32;
//   ScaleKind::half:  the rows' scales, float32; the groups' scales, float16; if the form has minimums those, float16;
//   ScaleKind::zeros: the rows' scales, float32; the groups' scales, float16; their zero points, int8;
//   ScaleKind::two:   the block's scale times the row's, float32; if the form has minimums the same of theirs, float32;
//                    the groups' factors, a byte that is 128 more; if the form has minimums their factors, a byte.
//
// Then come the codes, in the order in which a warp's lanes need them as the operand A of mma and wgmma
// (device/mma.cuh). A step is 16 columns of all 16 rows, the operand A of one instruction: lane 4 g + c has columns 2
// c, 2 c + 1, 2 c + 8 and 2 c + 9 of rows g and g + 8. Lane 0's 16 bytes are followed by lane 1's, and so on:
//   bits4: of four steps, a word of 32 bits each. Turned right by three bits (so that a shift less brings them to where
//   codes.cuh wants them) its bits 4 i + (0 to 3) and 16 + 4 i + (0 to 3) are a[i] of the step.
//   int8, e4m3: of two steps, two words each. The first is of row g: its bytes 0 and 2 are a[0], its bytes 1 and 3
//   a[2]; the second is of row g + 8: a[1] and a[3].
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/compact_weight.h"

namespace nanolith::cuda {

inline constexpr int kCompactTile = 16;      // rows
inline constexpr int kCompactColumns = 256;  // of a block
inline constexpr int kCompactUnit = 64;      // columns that a row's length is rounded up to
inline constexpr int kFactorZero = 128;      // what is added to a group's factor
inline constexpr int kBits4Turn = 3;         // bits that words of 4-bit codes are turned left by
static_assert(kCompactColumns == kCompactBlock);

// Bytes that the codes of a line take: 64 columns of the 16 rows of a tile.
__host__ __device__ constexpr int compact_line_bytes(CodeKind codes) {
    return kCompactTile * kCompactUnit / (codes == CodeKind::bits4 ? 2 : 1);
}

// A form as it is stored here.
struct CompactLayout {
    CodeKind codes = CodeKind::int8;
    ScaleKind scales = ScaleKind::half;
    int group = 32;  // 16 or 32
    int zero = 0;    // what is subtracted from a code
    bool mins = false;

    CompactLayout() = default;
    explicit constexpr CompactLayout(const CompactForm& form)
        : codes(form.codes),
          scales(form.scales),
          group(form.group < 32 ? form.group : 32),
          zero(form.zero),
          mins(form.mins) {}

    // Whether codes can be stored: those of 8 bits have no CompactForm::zero here, but their groups may have zero
    // points.
    [[nodiscard]] static constexpr bool stores(const CompactForm& form) {
        return form.codes == CodeKind::bits4 || form.zero == 0;
    }

    // Groups of a block, also of one with fewer columns.
    [[nodiscard]] __host__ __device__ constexpr int groups() const { return kCompactColumns / group; }

    // Where a block's arrays begin, in bytes.
    [[nodiscard]] __host__ __device__ constexpr int row_mins() const { return 4 * kCompactTile; }
    [[nodiscard]] __host__ __device__ constexpr int group_scales() const {
        return row_mins() + (scales == ScaleKind::two && mins ? 4 * kCompactTile : 0);
    }
    [[nodiscard]] __host__ __device__ constexpr int group_mins() const {
        return group_scales() + group_array(scales == ScaleKind::none ? 0 : scales == ScaleKind::two ? 1 : 2);
    }
    [[nodiscard]] __host__ __device__ constexpr int code_offset() const {
        return group_mins() + (mins ? group_array(scales == ScaleKind::half ? 2 : 1) : 0);
    }

    // Bytes of the codes of 64 columns.
    [[nodiscard]] __host__ __device__ constexpr int line_bytes() const { return compact_line_bytes(codes); }
    [[nodiscard]] __host__ __device__ constexpr int block_bytes(int columns) const {
        return code_offset() + columns / kCompactUnit * line_bytes();
    }
    [[nodiscard]] __host__ __device__ constexpr int64_t tile_bytes(int size) const {
        const int padded = (size + kCompactUnit - 1) / kCompactUnit * kCompactUnit;
        const int rest = padded % kCompactColumns;
        return int64_t{padded / kCompactColumns} * block_bytes(kCompactColumns) + (rest > 0 ? block_bytes(rest) : 0);
    }

  private:
    // Of an array with so many bytes for each group of each row.
    [[nodiscard]] __host__ __device__ constexpr int group_array(int bytes) const {
        return bytes * kCompactTile * groups();
    }
};

// A matrix of compact weights of one form on the device.
struct CompactMatrix {
    CompactLayout layout;
    const std::byte* tiles = nullptr;  // [num_tiles()][layout.tile_bytes(size)]
    int size = 0;                      // columns
    int outputs = 0;                   // rows; of gate alone where `gated`
    bool gated = false;                // whether it is a gate with its up projection

    [[nodiscard]] __host__ __device__ constexpr int rows_of_tile() const {
        return gated ? kCompactTile / 2 : kCompactTile;
    }
    [[nodiscard]] __host__ __device__ constexpr int num_tiles() const {
        return (outputs + rows_of_tile() - 1) / rows_of_tile();
    }
    [[nodiscard]] __host__ __device__ constexpr int64_t bytes() const { return num_tiles() * layout.tile_bytes(size); }
};

// Blocks of a tile with rows of `size` columns.
__host__ __device__ constexpr int compact_blocks_of(int size) {
    return (size + kCompactColumns - 1) / kCompactColumns;
}

}  // namespace nanolith::cuda
