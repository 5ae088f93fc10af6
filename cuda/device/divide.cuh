// Division of whole numbers below 2^18 by way of float32: about 5 instructions, where the compiler needs 25 for "/".
#pragma once

#include "device/fast_math.cuh"

namespace nanolith::cuda {

// x / y, rounded down, for 0 <= x < 2^18 and 0 < y < 2^18. The result is exact: (x + 0.5) / y differs from each whole
// number by at least 0.5 / y, and the quotient in float32 is wrong by less than 2^-21 times itself, which is less.
__device__ inline int divide_small(int x, int y) {
    return static_cast<int>(fast_divide(static_cast<float>(x) + 0.5F, static_cast<float>(y)));
}

}  // namespace nanolith::cuda
