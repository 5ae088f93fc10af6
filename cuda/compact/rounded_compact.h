// Products of compact weights with any number of rows of 16-bit activations on Hopper: weights are rounded to 16 bits
// in registers, on their way from memory to the tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/layout.h"
#include "compact/streamed_compact.h"
#include "runtime/clusters.h"
#include "runtime/gpu_facts.h"

namespace nanolith::cuda {

// Of thread blocks that fill a multiprocessor, as those of rounded products do, and of experts' (experts/).
Result<ClustersAtOnce> find_rounded_clusters();

// Whether there are kernels for matrices of this form, with rows of `size` elements.
bool rounded_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu);

// outputs [rows, matrix.outputs] = x W^T, x [rows, matrix.size], 16-byte aligned.
template <typename T>
Result<void> rounded_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                             const ClustersAtOnce& clusters, cudaStream_t stream);

}  // namespace nanolith::cuda
