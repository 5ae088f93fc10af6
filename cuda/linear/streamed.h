// Products of a weight matrix with up to four rows of 16-bit activations on Hopper: the weights stream through shared
// memory to the tensor cores once for all rows, and everything around the product is fused into it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/model_spec.h"
#include "base/result.h"
#include "linear/matvec.h"
#include "runtime/gpu_facts.h"

namespace nanolith::cuda {

// Most rows that the functions below take.
constexpr int kStreamedRows = 4;

// How a product is launched.
struct StreamedLaunch {
    int multiprocessors = 0;
    // Whether its blocks leave half of each multiprocessor's shared memory to another streamed product.
    bool half = false;
    // With `half`: whether they take a little more than half, so that no two of them share a multiprocessor.
    bool alone = false;
    // Whether it may begin, and fetch its first weights, while the launch before it still runs. That must be a streamed
    // product with the same `half`, or a norm that begins early behind one: then a multiprocessor gets one block of
    // each product, or one after the other. (Elsewhere blocks that begin early would meet on the multiprocessors that
    // are free first, unless they are `alone`.)
    bool early = false;
    cudaStream_t stream = nullptr;
};

// Whether the functions below take `rows` rows of `size` elements of T, with that StreamedLaunch::half.
template <typename T>
bool streamed_supports(int rows, int size, bool half, const GpuFacts& gpu);

// to [rows, outputs] = norm(x) W^T, weight [outputs, size]. The normalised rows are rounded to T.
template <typename T, typename Output>
Result<void> streamed_normed(const NormedRows<T>& x, const T* weight, int outputs, Output* to,
                             const StreamedLaunch& how);

// to [rows, outputs] = activation(norm(x) W_gate^T) * (norm(x) W_up^T), gate_up [2 * outputs, size] with the rows of
// W_gate first.
template <typename T>
Result<void> streamed_gate_up(const NormedRows<T>& x, const T* gate_up, Activation activation, int outputs, T* to,
                              const StreamedLaunch& how);

// to [rows, outputs] = x W^T, x [rows, size], weight [outputs, size].
template <typename T, typename Output>
Result<void> streamed(const T* x, const T* weight, int rows, int size, int outputs, Output* to,
                      const StreamedLaunch& how);

// residual [rows, outputs] += x W^T, x [rows, size], weight [outputs, size].
template <typename T>
Result<void> streamed_add(const T* x, const T* weight, int rows, int size, int outputs, float* residual,
                          const StreamedLaunch& how);

}  // namespace nanolith::cuda
