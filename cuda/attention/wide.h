// Attention of many query vectors over segments of the paged KV cache on Hopper's matrix units: prefill with history,
// and shared segments that many rows of a decode batch read at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/attention.h"
#include "attention/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

// Query vectors of a full item, and of one that a pair of multiprocessors does together. These read K and V once for
// both: on long contexts that is 5% faster, since what moves costs the power that limits the clock. Not for head_dims
// other than 128, windows and soft caps.
constexpr int kWideVectors = 128;
constexpr int kWidePairVectors = 256;

// Whether attend_wide takes heads of this shape on the current device, and was built for it (for sm_90a).
bool wide_supported(const HeadShape& shape, int compute_capability_major);

// Does the first num_items of arguments.work.wide, costliest first, of up to item_vectors (one of the above) each;
// items without vectors are no work. Partial results are left for others to merge. K and V are of type T, page_size is
// a power of two from 16 to 256; all pointers and the queries' and outputs' rows are aligned to 16 bytes. `counters`:
// 2, zeros between launches.
template <typename T>
Result<void> attend_wide(const AttentionArguments<T>& arguments, const HeadShape& shape, int item_vectors,
                         int num_items, int32_t* counters, cudaStream_t stream);

}  // namespace nanolith::cuda
