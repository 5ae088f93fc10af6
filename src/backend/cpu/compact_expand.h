// Widens tiles of compact weights, for products of many rows.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/compact_matrix.h"

namespace nanolith::cpu {

// Widens the columns [from, from + depth) of the rows [first, first + count) of the parts on top of each other. They
// are stored as panels of `width` rows, column after column: row first + n of column from + k is
// to[n / width * width * depth + k * width + n % width]. The last panel is filled up with zeros. `from` is a multiple
// of 256; `width` is a multiple of 16 (of 8 with instructions below AVX2), or there is one panel.
void expand_tile(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 int64_t width, float* to);
void expand_tile(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 int64_t width, BFloat16* to);

}  // namespace nanolith::cpu
