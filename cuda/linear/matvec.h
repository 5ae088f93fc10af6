// Products of a weight matrix with few rows of activations, at the speed at which memory delivers the weights.
// Everything around the product is fused into it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/model_spec.h"
#include "base/result.h"
#include "norm/norm.h"

namespace nanolith::cuda {

// Most rows that the functions below take.
constexpr int kMatvecRows = 4;

// Rows of the residual stream that are normalised (RMSNorm) as they are read.
template <typename T>
struct NormedRows {
    const float* residual = nullptr;  // [*, size]
    Norm norm;
    const int32_t* row_index = nullptr;  // [rows] which rows of residual; null: the first ones
    int rows = 0;
    int size = 0;
};

// to [rows, outputs] = norm(x) W^T, weight [outputs, size].
template <typename T, typename Output>
Result<void> matvec_normed(const NormedRows<T>& x, const T* weight, int outputs, Output* to, int multiprocessors,
                           cudaStream_t stream);

// to [rows, size of the MLP] = activation(norm(x) W_gate^T) * (norm(x) W_up^T), gate_up [2 * outputs, size] with the
// rows of W_gate first.
template <typename T>
Result<void> matvec_gate_up(const NormedRows<T>& x, const T* gate_up, Activation activation, int outputs, T* to,
                            cudaStream_t stream);

// to [rows, outputs] = x W^T, x [rows, size], weight [outputs, size]. The rows of `to` are `stride` elements apart.
template <typename T, typename Output>
Result<void> matvec(const T* x, const T* weight, int rows, int size, int outputs, Output* to, int64_t stride,
                    cudaStream_t stream);

// residual [rows, outputs] += x W^T, x [rows, size], weight [outputs, size]. The rows of `residual` are `stride`
// elements apart.
template <typename T>
Result<void> matvec_add(const T* x, const T* weight, int rows, int size, int outputs, float* residual, int64_t stride,
                        int multiprocessors, cudaStream_t stream);

}  // namespace nanolith::cuda
