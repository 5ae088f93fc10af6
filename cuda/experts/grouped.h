// Products of rows with the weights of the experts that they chose.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "base/result.h"

namespace nanolith::cuda {

// y[p] = W_e x[row(p)] for the pairs p that are grouped by expert: those of expert e are begins[e] to begins[e + 1].
// row(p) is pairs[p] / top_k, or p where pairs is null. x [*, size], weight [experts, outputs, size],
// y [pairs, outputs].
template <typename T>
struct GroupedProduct {
    const T* x = nullptr;
    const T* weight = nullptr;
    const int32_t* begins = nullptr;
    const int32_t* pairs = nullptr;
    int num_pairs = 0;
    int top_k = 1;
    int experts = 0;
    int size = 0;
    int outputs = 0;
    bool hopper = false;  // it is computed on a Hopper GPU (compute capability 9.0)

    // Experts that have pairs, at most.
    [[nodiscard]] int most_chosen() const { return std::min(experts, num_pairs); }
};

// A row's result does not depend on what other rows there are.
template <typename T, typename Output>
Result<void> multiply_grouped(const GroupedProduct<T>& product, Output* y, cudaStream_t stream);

// Called by multiply_grouped() for other 16-bit numbers, where size is a multiple of 32.
template <typename T, typename Output>
Result<void> multiply_grouped_mma(const GroupedProduct<T>& product, Output* y, cudaStream_t stream);

// Called by multiply_grouped() on Hopper GPUs for 16-bit numbers, where size and outputs are multiples of 8.
template <typename T, typename Output>
Result<void> multiply_grouped_wgmma(const GroupedProduct<T>& product, Output* y, cudaStream_t stream);

}  // namespace nanolith::cuda
