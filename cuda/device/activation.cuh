// The activations of an MLP's gate.
#pragma once

#include "backend/model_spec.h"
#include "device/fast_math.cuh"

namespace nanolith::cuda {

// SiLU (Elfwing et al., 2018) or GELU with tanh (Hendrycks and Gimpel, 2016): x (1 + tanh z) / 2 is x / (1 + e^-2z).
// For a large negative x the exponential is infinite and the quotient zero, as it should be.
__device__ inline float activate(Activation activation, float x) {
    constexpr float kSlope = 1.5957691216057308F;  // 2 sqrt(2 / pi)
    const float exponent = activation == Activation::silu ? x : kSlope * (x + 0.044715F * x * x * x);
    return fast_divide(x, 1.0F + expf(-exponent));
}

}  // namespace nanolith::cuda
