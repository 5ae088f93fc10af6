// The tensor map with which the tensor copy engine of Hopper (TMA) finds keys and values in a page pool.
#pragma once

#include <cuda.h>

#include "attention/common/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

// What one copy brings to shared memory: a box of `tokens` keys or values of one KV head, a multiple of 8 that divides
// page_size.
struct PageBox {
    int tokens = 0;
    // Whether the box has all of head_dim, which is a multiple of 128 bytes then. Otherwise it has 128 bytes of each
    // token.
    bool whole_heads = false;
};

// The map shows the pool as rows of head_dim elements: a row for each page, K or V, KV head and token, in this order.
// Its coordinates are: the element in 128 bytes, the row in eight rows, the 128 bytes in a row, and the eight rows in
// the pool. (Where boxes do not have whole heads the first coordinate counts all elements of a row, and the third is
// always 0.) In shared memory a box has the first 128 bytes of eight rows, then the next 128 bytes of these rows, and
// so on, then the next eight rows; its 16-byte parts are swizzled by 128 bytes. Elements after head_dim become zeros.
//
// `pages` is the pool's address on the device, and `type` with its `element_bytes` the number format there. Fails with
// NL_ERROR_DEVICE where the driver has no tensor maps or refuses this one.
Result<CUtensorMap> map_pages(const void* pages, CUtensorMapDataType type, int element_bytes, const HeadShape& shape,
                              const PageBox& box);

}  // namespace nanolith::cuda
