// A matrix of compact weights (backend/compact_weight.h) as the CPU's kernels read it.
//
// Each row is one run of bytes: for each block of 256 weights first its scales and minimums, then its codes. Groups of
// more than 32 weights are stored as several of 32. The last block of a row has fewer weights, a multiple of 64.
//
// 64 codes of 4 bits, or 32 of 8 bits, are 16 words of 16 bits: word i has the codes i, i + 16 and so on, from its low
// bits up. So the same bits of the 16 words are 16 consecutive codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/cpu/buffer.h"
#include "backend/weight_view.h"
#include "base/thread_pool.h"

namespace nanolith::cpu {

inline constexpr int64_t kCompactUnit = 64;  // weights that a row's length is rounded up to

constexpr int64_t padded_depth(int64_t depth) {
    return (depth + kCompactUnit - 1) / kCompactUnit * kCompactUnit;
}
// Weights in this block of a row.
constexpr int64_t block_size(int64_t depth, int64_t block) {
    const int64_t left = padded_depth(depth) - block * kCompactBlock;
    return left < kCompactBlock ? left : kCompactBlock;
}
// Weights that share a scale in this layout.
constexpr int64_t stored_group(const CompactForm& form) {
    return form.group < 32 ? form.group : 32;
}
// Bytes of the scales and minimums of so many groups.
constexpr int64_t scale_bytes(const CompactForm& form, int64_t groups) {
    const int64_t stored = form.mins ? 2 : 1;
    return form.scales == ScaleKind::none   ? 0
           : form.scales == ScaleKind::half ? stored * 2 * groups
                                            : 4 + stored * groups;
}
constexpr int64_t code_bytes(const CompactForm& form, int64_t weights) {
    return form.codes == CodeKind::bits4 ? weights / 2 : weights;
}
constexpr int64_t block_bytes(const CompactForm& form, int64_t weights) {
    return scale_bytes(form, weights / stored_group(form)) + code_bytes(form, weights);
}
constexpr int64_t row_bytes(const CompactForm& form, int64_t depth) {
    const int64_t whole = padded_depth(depth) / kCompactBlock;
    const int64_t rest = padded_depth(depth) % kCompactBlock;
    return whole * block_bytes(form, kCompactBlock) + (rest > 0 ? block_bytes(form, rest) : 0);
}

// Rows of one form. The rows' scales are in an array of their own.
struct CompactRows {
    CompactForm form;
    int64_t outputs = 0;
    int64_t depth = 0;
    Buffer<std::byte> rows;  // [outputs, row_bytes(form, depth)]
    Buffer<float> scales;    // [outputs]
};

// Stores the first `weights` weights of a block at `to`, as the head of this file says.
void store_block(const CompactForm& form, const CompactBlock& block, int64_t weights, std::byte* to);

// Bytes of a weight's CompactRows.
uint64_t compact_bytes(const CompactForm& form, int64_t outputs, int64_t depth);

// OUT_OF_MEMORY, with the weight's name.
Result<CompactRows> load_compact(const std::string& name, const WeightView& weight, const CompactForm& form,
                                 ThreadPool& pool);

// Widens the rows [first, first + count) of the parts on top of each other: to[i * stride + k] is column from + k of
// row first + i, k < depth. `from` is a multiple of 256.
void expand_rows(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 float* to, int64_t stride);
void expand_rows(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 BFloat16* to, int64_t stride);

}  // namespace nanolith::cpu
