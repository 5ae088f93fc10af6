// Products of a weight matrix with up to 96 rows of 16-bit activations on Hopper: weights and activations pass through
// stages of shared memory to the tensor cores, weights once for all rows. An activation, or the addition to the
// residual stream, is fused into them.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/model_spec.h"
#include "base/result.h"
#include "runtime/clusters.h"

namespace nanolith::cuda {

// Most rows that the functions below take.
constexpr int kStagedRows = 96;
// Most thread blocks, a cluster, that share the columns of their weights: a power of two.
constexpr int kStagedSplits = 4;

// Of thread blocks that fill a multiprocessor, as those of large products do.
Result<ClustersAtOnce> find_staged_clusters();

// How a product is launched. It is always an early launch: its first weights are fetched while launches before it run.
struct StagedLaunch {
    ClustersAtOnce clusters;
    cudaStream_t stream = nullptr;
    // Whether no two of its thread blocks may share a multiprocessor. Those that fit twice may meet where the launch
    // before leaves some multiprocessors empty, or some before others, and take longer than all others.
    bool alone = false;
};

// x [rows, size], 16-byte aligned.
template <typename T>
struct StagedRows {
    const T* x;
    int rows;
    int size;
};

// Whether the functions below take `rows` rows of `size` elements, on a GPU with such clusters (find_staged_clusters).
bool staged_supports(int rows, int size, const ClustersAtOnce& clusters);

// to [rows, outputs] = activation(x W_gate^T) * (x W_up^T), gate_up [2 * outputs, size] with the rows of W_gate first.
template <typename T>
Result<void> staged_gate_up(const StagedRows<T>& x, const T* gate_up, Activation activation, int outputs, T* to,
                            const StagedLaunch& how);

// to [rows, outputs] = x W^T, weight [outputs, size].
template <typename T, typename Output>
Result<void> staged(const StagedRows<T>& x, const T* weight, int outputs, Output* to, const StagedLaunch& how);

// residual [rows, outputs] += x W^T, weight [outputs, size].
template <typename T>
Result<void> staged_add(const StagedRows<T>& x, const T* weight, int outputs, float* residual, const StagedLaunch& how);

}  // namespace nanolith::cuda
