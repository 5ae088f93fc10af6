// Products of compact weights with up to 192 rows of 16-bit activations on Hopper: the codes are read once for 64 rows.
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "base/result.h"
#include "compact/layout.h"
#include "compact/streamed_compact.h"
#include "runtime/gpu_facts.h"

namespace nanolith::cuda {

// Most rows of a launch.
constexpr int kTiledRows = 64;
// Most rows that the function below takes, in up to three launches. With more it is faster to expand the weights
// (expand.h): about 10 ms for all of Llama-3.1-8B's on an H100, where a launch for each matrix takes 4.7 ms of fp8 and
// 6.2 ms of int4.
constexpr int kMostTiledRows = 192;

// The largest cluster: the thread blocks that divide the columns of one strip of weight rows among them.
constexpr int kTiledSplits = 8;

// What the GPU allows: most[n] is how many clusters of n thread blocks run at the same time, 0 where none does.
struct TiledClusters {
    std::array<int, kTiledSplits + 1> most = {};
};
Result<TiledClusters> find_tiled_clusters();

bool tiled_compact_supports(const CompactLayout& layout, int rows, int size, const GpuFacts& gpu);

// outputs [rows, matrix.outputs] = x W^T, x [rows, matrix.size].
template <typename T>
Result<void> tiled_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                           const TiledClusters& clusters, cudaStream_t stream);

}  // namespace nanolith::cuda
