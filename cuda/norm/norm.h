// A norm's parameters.
#pragma once

namespace nanolith::cuda {

// RMSNorm (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019): y = x / sqrt(mean(x^2) + epsilon) *
// weight. The weight is float32 whatever the model's type, since some models add 1 to theirs.
struct Norm {
    const float* weight = nullptr;  // null: there is none
    float epsilon = 0;
};

}  // namespace nanolith::cuda
