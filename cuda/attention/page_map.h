// A page pool as the bulk tensor copy engine sees it (Hopper).
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "attention/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

// The driver's cuTensorMapEncodeTiled, found at run time, so that nothing links the driver.
struct TensorMapEncoder {
    PFN_cuTensorMapEncodeTiled_v12000 encode;
};
Result<TensorMapEncoder> tensor_map_encoder();

// The pool as rows of head_dim elements, one for each page, K or V, KV head and token, to be copied in boxes of
// `box_tokens` rows and 128 bytes, swizzled by 128 bytes; zeros beyond head_dim.
Result<CUtensorMap> map_pages(const void* pages, CUtensorMapDataType type, int element_bytes, const HeadShape& shape,
                              int box_tokens);

}  // namespace nanolith::cuda
