// Products of rows with the compact weights of the experts that they chose, on Hopper.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/tiled_compact.h"
#include "experts/grouped.h"

namespace nanolith::cuda {

// Whether there is a kernel for experts of this form whose rows have `size` elements.
bool grouped_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu);

// outputs [pairs, *] = W_e x[row(p)] for the pairs p of GroupedProduct (whose `weight`, `size` and `outputs` are not
// read), or what output.kind makes of it. `first`: the matrix of the first expert, as ExpertMatrix has it.
template <typename T>
Result<void> multiply_grouped_compact(const GroupedProduct<T>& product, const CompactMatrix& first,
                                      const CompactOutput& output, const TiledClusters& clusters, cudaStream_t stream);

}  // namespace nanolith::cuda
