// Powers of two by the standard library.
#pragma once

#include <cmath>

namespace nanolith::cuda {

inline float fast_exp2(float x) {
    return std::exp2(x);
}

}  // namespace nanolith::cuda
