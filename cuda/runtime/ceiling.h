// What a GPU can do at most, from what the driver tells about it.
#pragma once

#include "backend/dtype.h"
#include "backend/profile.h"

namespace nanolith::cuda {

// Of GPU `device`: the rate of its memory's pins, and of dense products in `dtype` at the highest clock, where that is
// known for its generation. A plain read reaches some 92% of the former on an H200, and power limits the latter.
Result<Ceiling> device_ceiling(int device, DType dtype);

}  // namespace nanolith::cuda
