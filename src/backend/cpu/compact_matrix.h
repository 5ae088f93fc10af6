// A matrix of compact weights (backend/compact_weight.h) as the CPU's kernels read it.
//
// 16 rows (outputs of a product) are a strip, so that a vector holds the same columns of several outputs. A strip is
// one run of bytes: for each block of 256 columns first the scales and minimums of its groups, then its codes. Groups
// of more than 32 columns are stored as several of 32. The last block has fewer columns, a multiple of 64; the last
// strip is filled up with rows of zeros.
//
// Scales and minimums are stored group after group, 16 rows each:
//   ScaleKind::half:  scales [groups][16], then minimums [groups][16] if the form has minimums; all float16;
//   ScaleKind::zeros: scales [groups][16] as float16, then zero points [groups][16] as int8;
//   ScaleKind::two:   the block's scales [16] and its minimums' scales [16] as float16; then the factors of the scales
//                    [groups][16] and, if the form has minimums, those of the minimums [groups][16] as int8.
//
// Codes are stored in lines of 64 bytes: a word of 32 bits for each of the 16 rows, which has 8 consecutive columns of
// 4-bit codes (byte i: column i in its lower half, column i + 4 in its upper half) or 4 of 8-bit codes (byte i: column
// i). int8 is stored as the code plus 128, which is never negative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/cpu/buffer.h"
#include "backend/weight_view.h"
#include "base/thread_pool.h"

namespace nanolith::cpu {

inline constexpr int64_t kStrip = 16;        // rows
inline constexpr int64_t kCompactUnit = 64;  // columns that a row's length is rounded up to
inline constexpr int64_t kLine = 64;         // bytes of codes: the same columns of all rows of a strip
inline constexpr int32_t kInt8Zero = 128;    // what is added to a code of int8

constexpr int64_t padded_depth(int64_t depth) {
    return (depth + kCompactUnit - 1) / kCompactUnit * kCompactUnit;
}
constexpr int64_t strips_of(int64_t outputs) {
    return (outputs + kStrip - 1) / kStrip;
}
// Columns of this block.
constexpr int64_t block_size(int64_t depth, int64_t block) {
    const int64_t left = padded_depth(depth) - block * kCompactBlock;
    return left < kCompactBlock ? left : kCompactBlock;
}
// Columns that share a scale in this layout.
constexpr int64_t stored_group(const CompactForm& form) {
    return form.group < 32 ? form.group : 32;
}
// Columns of a line.
constexpr int64_t line_columns(CodeKind codes) {
    return codes == CodeKind::bits4 ? 8 : 4;
}
// Of a strip: bytes of the scales and minimums of so many groups, a multiple of a line.
constexpr int64_t scale_bytes(const CompactForm& form, int64_t groups) {
    const int64_t numbers = kStrip * groups;
    const int64_t stored = (form.mins ? 2 : 1) * numbers;
    const int64_t bytes = form.scales == ScaleKind::none    ? 0
                          : form.scales == ScaleKind::half  ? 2 * stored
                          : form.scales == ScaleKind::zeros ? 3 * numbers
                                                            : 4 * kStrip + stored;
    return (bytes + kLine - 1) / kLine * kLine;
}
constexpr int64_t code_bytes(const CompactForm& form, int64_t columns) {
    return columns / line_columns(form.codes) * kLine;
}
constexpr int64_t block_bytes(const CompactForm& form, int64_t columns) {
    return scale_bytes(form, columns / stored_group(form)) + code_bytes(form, columns);
}
constexpr int64_t strip_bytes(const CompactForm& form, int64_t depth) {
    const int64_t whole = padded_depth(depth) / kCompactBlock;
    const int64_t rest = padded_depth(depth) % kCompactBlock;
    return whole * block_bytes(form, kCompactBlock) + (rest > 0 ? block_bytes(form, rest) : 0);
}

// Rows of one form. The rows' scales are in an array of their own.
struct CompactRows {
    CompactForm form;
    int64_t outputs = 0;
    int64_t depth = 0;
    Buffer<std::byte> strips;  // [strips_of(outputs), strip_bytes(form, depth)]
    Buffer<float> scales;      // [strips_of(outputs) * kStrip]
};

// Bytes of a weight's CompactRows.
uint64_t compact_bytes(const CompactForm& form, int64_t outputs, int64_t depth);

// OUT_OF_MEMORY, with the weight's name.
Result<CompactRows> load_compact(const std::string& name, const WeightView& weight, const CompactForm& form,
                                 ThreadPool& pool);

// Widens row `row` of the parts on top of each other: to[k] is its column k, k < depth of the matrix.
void expand_row(const std::vector<CompactRows>& parts, int64_t row, float* to);

}  // namespace nanolith::cpu
