// The SiLU activation (Elfwing et al., 2018).
#pragma once

namespace nanolith::cuda {

// For a large negative x, exp(-x) is infinite and the quotient zero, as it should be.
__device__ inline float silu(float x) {
    return x / (1.0F + expf(-x));
}

}  // namespace nanolith::cuda
