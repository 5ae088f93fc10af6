// What host code must know of the GPU.
#pragma once

namespace nanolith::cuda {

struct GpuFacts {
    int multiprocessors = 0;
    int major = 0;  // compute capability

    // Whether there are early launches (LaunchShape::early).
    [[nodiscard]] bool has_early_launches() const { return major >= 9; }
};

}  // namespace nanolith::cuda
