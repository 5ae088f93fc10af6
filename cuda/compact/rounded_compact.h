// Products of compact weights with many rows of 16-bit activations on Hopper: weights are rounded to 16 bits in
// registers, on their way from memory to the tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/layout.h"
#include "compact/streamed_compact.h"
#include "compact/tiled_compact.h"
#include "runtime/gpu_facts.h"

namespace nanolith::cuda {

// outputs [rows, matrix.outputs] = x W^T, x [rows, matrix.size], 16-byte aligned, of a form that
// tiled_compact_supports().
template <typename T>
Result<void> rounded_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                             const ClustersAtOnce& clusters, cudaStream_t stream);

}  // namespace nanolith::cuda
