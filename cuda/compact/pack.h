// Packs rows of compact blocks into tiles as device memory has them (layout.h). On the host.
#pragma once

#include <cstddef>
#include <span>

#include "backend/compact_weight.h"
#include "compact/layout.h"

namespace nanolith::cuda {

// Writes row `row` of a tile, of `size` columns, with its scale. `tile` has layout.tile_bytes(size) bytes and was
// filled with zeros before its first row.
void pack_row(const CompactForm& form, std::span<const CompactBlock> blocks, float row_scale, int size, int row,
              std::byte* tile);

}  // namespace nanolith::cuda
