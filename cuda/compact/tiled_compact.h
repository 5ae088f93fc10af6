// Products of compact weights with up to 32 rows of 16-bit activations on Hopper: the codes are multiplied, and the
// sums of each group are scaled.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/layout.h"
#include "compact/streamed_compact.h"
#include "runtime/clusters.h"
#include "runtime/gpu_facts.h"

namespace nanolith::cuda {

// Most rows: with more it takes fewer instructions to scale the weights (rounded_compact.h).
constexpr int kTiledRows = 32;

// The largest cluster: the thread blocks that divide the columns of one strip of weight rows among them.
constexpr int kTiledSplits = 8;

// Of thread blocks that fill a multiprocessor, as those of tiled and of rounded products do.
Result<ClustersAtOnce> find_tiled_clusters();

// Whether there are kernels for matrices of this form, with rows of `size` elements.
bool tiled_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu);

// outputs [rows, matrix.outputs] = x W^T, x [rows, matrix.size].
template <typename T>
Result<void> tiled_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                           const ClustersAtOnce& clusters, cudaStream_t stream);

}  // namespace nanolith::cuda
