// Conversion of weights to another number format, on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/dtype.h"
#include "base/result.h"

namespace nanolith::cuda {

// to[i] = from[i], `count` elements, rounded to nearest even. Both on the device and aligned to their elements.
Result<void> convert(const void* from, DType from_type, void* to, DType to_type, int64_t count, cudaStream_t stream);

}  // namespace nanolith::cuda
