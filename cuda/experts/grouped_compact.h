// Products of rows with the compact weights of the experts that they chose, on Hopper.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/rounded_compact.h"
#include "experts/grouped.h"

namespace nanolith::cuda {

// Whether there is a kernel for experts of this form whose rows have `size` elements.
bool grouped_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu);

// outputs [pairs, *] = W_e x[row(p)] for the pairs p of GroupedProduct (whose `weight`, `size` and `outputs` are not
// read), or what output.kind makes of it. `first`: the matrix of the first expert, as ExpertMatrix has it. With few
// pairs for each expert the first function is faster, which multiplies codes; the second one rounds weights to 16 bits,
// and takes `gathered`, memory for [pairs, first.size] numbers that are not kept, where product.pairs is not null.
template <typename T>
Result<void> multiply_grouped_compact(const GroupedProduct<T>& product, const CompactMatrix& first,
                                      const CompactOutput& output, const ClustersAtOnce& clusters, cudaStream_t stream);
template <typename T>
Result<void> multiply_grouped_rounded(const GroupedProduct<T>& product, const CompactMatrix& first,
                                      const CompactOutput& output, T* gathered, cudaStream_t stream);

// With up to so many pairs for each expert, on average over all experts, multiply_grouped_compact() is the faster one.
constexpr int kFewGroupedPairs = 8;

}  // namespace nanolith::cuda
