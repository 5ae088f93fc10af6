// Stands in for cuda/device/fast_math.cuh: the same functions by the standard library.
#pragma once

#include <cmath>

namespace nanolith::cuda {

inline float fast_exp2(float x) {
    return std::exp2(x);
}
inline float fast_log2(float x) {
    return std::log2(x);
}
inline float fast_tanh(float x) {
    return std::tanh(x);
}
inline float fast_divide(float x, float y) {
    return x / y;
}

}  // namespace nanolith::cuda
