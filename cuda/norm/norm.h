// A norm's parameters.
#pragma once

namespace nanolith::cuda {

// RMSNorm (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019):
// y = x / sqrt(mean(x^2) + epsilon) * (weight + offset).
template <typename T>
struct Norm {
    const T* weight = nullptr;  // null: there is none
    float offset = 0;
    float epsilon = 0;
};

}  // namespace nanolith::cuda
