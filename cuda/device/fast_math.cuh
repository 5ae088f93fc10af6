// Functions that are one instruction of the special function units, less accurate than the toolkit's.
#pragma once

namespace nanolith::cuda {

// 2^x (PTX "ex2.approx.ftz"), with a relative error below 2^-22; results below 2^-126 become zero.
__device__ inline float fast_exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// The logarithm of x to base 2 (PTX "lg2.approx.ftz"). The error is below 2^-22 for x between 0.5 and 2, and below
// 2^-22 times the result for other x. For 0 and numbers below 2^-126 the result is -infinity.
__device__ inline float fast_log2(float x) {
    float logarithm;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(x));
    return logarithm;
}

// The hyperbolic tangent (PTX "tanh.approx", sm_75 and newer), with a relative error of up to about 2^-11.
__device__ inline float fast_tanh(float x) {
    float tangent;
    asm("tanh.approx.f32 %0, %1;" : "=f"(tangent) : "f"(x));
    return tangent;
}

// x / y (PTX "div.approx"), within 2 units in the last place; zero where y is above 2^126.
__device__ inline float fast_divide(float x, float y) {
    return __fdividef(x, y);
}

}  // namespace nanolith::cuda
