// Products of few rows with compact weights, whose codes are widened in registers: no weight is rounded.
//
// Rows of float32 are multiplied as float32. Rows of bfloat16 become numbers of 16 bits in steps of a power of two for
// each 32 of them (the steps of the largest one's 15 bits): a number that is 1/128 of the largest or more stays exact,
// and a smaller one is off by 2^-15 of the largest at most, a 64th of what rounding to bfloat16 may be off. Their
// products with codes are added up in integers without rounding, and scaled in float32.
#pragma once

#include <cstdint>

#include "backend/compact_weight.h"
#include "backend/cpu/compact_matrix.h"

namespace nanolith::cpu {

// How rows of x are stored beside codes.
enum class RowKind : uint8_t {
    beside_bits4,  // float32, multiplied by the power of two that a code's place in its word asks for
    beside_bytes,  // float32
    fixed          // 16 bits and a step for each 32: of bfloat16 rows, not beside e4m3
};
inline constexpr int kNumRowKinds = 3;

// The kind of float32 rows or, with `bfloat16`, of bfloat16 rows.
constexpr RowKind row_kind(CodeKind codes, bool bfloat16) {
    if (bfloat16 && codes != CodeKind::e4m3) return RowKind::fixed;
    return codes == CodeKind::bits4 ? RowKind::beside_bits4 : RowKind::beside_bytes;
}

// A spread row is a row of x as the kernels read it, in blocks of 256 numbers; behind a block are the sums of each 16
// and of each 32 of its numbers, and the steps of each 16 and of each 32. Its size is given in float32 numbers.
inline constexpr int64_t kRowFacts = 16 + 8 + 16 + 8;
constexpr int64_t spread_block(RowKind kind) {
    return (kind == RowKind::fixed ? kCompactBlock / 2 : kCompactBlock) + kRowFacts;
}
constexpr int64_t spread_size(int64_t depth, RowKind kind) {
    return compact_blocks(depth) * spread_block(kind);
}

// Makes a spread row of a row of x, with zeros beyond its end.
void spread_compact(const float* x, int64_t depth, RowKind kind, float* to);
void spread_compact(const BFloat16* x, int64_t depth, RowKind kind, float* to);

// y[r * y_stride + n] (+)= sum over k of weight (first_output + n, k) * x[r][k], where x[r] is a spread row.
struct CompactProducts {
    CompactForm form;
    const std::byte* weights = nullptr;  // the first output's row
    const float* row_scales = nullptr;   // the first output's
    int64_t row_bytes = 0;
    int64_t depth = 0;
    RowKind kind = RowKind::beside_bytes;
    const float* x = nullptr;
    float* y = nullptr;
    int64_t y_stride = 0;
    bool accumulate = false;
};

// The weights are read once for every four rows. How a row's sum is rounded does not depend on other rows.
void compact_products(const CompactProducts& of, int64_t rows, int64_t outputs);

// Widens the `weights` weights of a block that store_block() stored.
void expand_stored(const CompactForm& form, const std::byte* block, int64_t weights, float row_scale, float* to);

}  // namespace nanolith::cpu
