// Products of compact weights with up to 64 rows of 16-bit activations on Hopper: the codes are read once for all rows.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/layout.h"
#include "compact/streamed_compact.h"
#include "runtime/gpu_facts.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// Most rows that the function below takes.
constexpr int kTiledRows = 64;

// Memory that products share, one after the other on a stream: sums that blocks leave for one another, and how many
// have left theirs.
struct TiledWork {
    DeviceBuffer sums;
    DeviceBuffer counters;  // all zero between products
};

// Of a matrix that was made for the largest of them.
Result<TiledWork> allocate_tiled_work(int max_outputs, int multiprocessors, cudaStream_t stream);

bool tiled_compact_supports(const CompactLayout& layout, int rows, int size, const GpuFacts& gpu);

// outputs [rows, matrix.outputs] = x W^T, x [rows, matrix.size].
template <typename T>
Result<void> tiled_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                           const TiledWork& work, int multiprocessors, cudaStream_t stream);

}  // namespace nanolith::cuda
