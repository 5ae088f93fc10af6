// Powers of two in one instruction (PTX "ex2.approx.ftz"), with a relative error below 2^-22; results below 2^-126
// become zero.
#pragma once

namespace nanolith::cuda {

__device__ inline float fast_exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

}  // namespace nanolith::cuda
