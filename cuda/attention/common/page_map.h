// A page pool as the bulk tensor copy engine sees it (Hopper).
#pragma once

#include <cuda.h>

#include "attention/common/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

// What one copy brings: `tokens` rows of 128 bytes, or, where heads are `whole`, of all of head_dim.
struct PageBox {
    int tokens = 0;
    bool whole = false;
};

// The pool as rows of head_dim elements, one for each page, K or V, KV head and token; in eights, swizzled by 128
// bytes; zeros beyond head_dim. In a copy of whole heads come the first 128 bytes of each of 8 rows, the next 128 bytes
// of these, and so on, then the next 8 rows: head_dim is a multiple of 128 bytes.
Result<CUtensorMap> map_pages(const void* pages, CUtensorMapDataType type, int element_bytes, const HeadShape& shape,
                              const PageBox& box);

}  // namespace nanolith::cuda
