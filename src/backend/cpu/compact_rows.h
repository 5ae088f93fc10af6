// Rows of activations as compact_products() reads them beside codes.
//
// Rows of float32 stay float32. Rows of bfloat16 become integers of 16 bits in steps of a power of two for each 32 of
// them: a number that is 1/64 of the largest or more stays exact, and a smaller one is off by about 2^-15 of the
// largest at most, a 64th of what rounding the largest to bfloat16 may be off. Their products with codes are added up
// as integers, without rounding.
#pragma once

#include <cstdint>

#include "backend/compact_weight.h"
#include "base/convert.h"

namespace nanolith::cpu {

// How a row's numbers are stored.
enum class RowKind : uint8_t {
    floats,  // float32, in order: of float32 rows, and of all rows beside e4m3
    words,   // integers of 16 bits; of each four numbers 0, 2, 1 and 3
    bytes    // the same in two parts, 256 high + low; of each four numbers the high parts and then the low parts
};
inline constexpr int kNumRowKinds = 3;

// The kind that this processor multiplies fastest: of float32 rows or, with `bfloat16`, of bfloat16 rows.
RowKind row_kind(CodeKind codes, bool bfloat16);

// What stands behind a block's 256 numbers, for each 16 of them.
struct RowFacts {
    float sums[kMostCompactGroups];      // of the numbers
    float steps[kMostCompactGroups];     // of the integers; NaN where a number is not finite
    int32_t totals[kMostCompactGroups];  // of the integers
};

// Float32 numbers that a block of a row takes: its numbers and its facts.
inline constexpr auto kRowFacts = static_cast<int64_t>(sizeof(RowFacts) / sizeof(float));
constexpr int64_t spread_block(RowKind kind) {
    return (kind == RowKind::floats ? kCompactBlock : kCompactBlock / 2) + kRowFacts;
}
constexpr int64_t spread_size(int64_t depth, RowKind kind) {
    return compact_blocks(depth) * spread_block(kind);
}

// Stores a row so, with zeros beyond its end: spread_size(depth, kind) numbers at `to`.
void spread_compact(const float* x, int64_t depth, RowKind kind, float* to);
void spread_compact(const BFloat16* x, int64_t depth, RowKind kind, float* to);

}  // namespace nanolith::cpu
