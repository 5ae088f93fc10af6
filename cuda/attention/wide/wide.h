// Attention of many query vectors over segments of the paged KV cache on Hopper's matrix units: prefill with history,
// and shared segments that many rows of a decode batch read at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/attention.h"
#include "attention/common/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

// Query vectors of a full item.
constexpr int kWideVectors = 128;

// Whether attend_wide supports heads of this shape on the current device, and was built for it (for sm_90a).
bool wide_supports(const HeadShape& shape, int major);

// Computes the first num_items of arguments.work.wide, of up to kWideVectors each, the costliest first; items without
// vectors are no work and are the last. Partial results are written for the narrow kernels to merge. K and V are of
// type T, page_size is a power of two from 16 to 256; all pointers and the queries' and outputs' rows are aligned to 16
// bytes. `counters`: 2, zeros between launches. The launch may be `early`: then it reads the plan before the launches
// before it have ended, and queries, keys and values afterwards.
template <typename T>
Result<void> attend_wide(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                         int32_t* counters, bool early, cudaStream_t stream);

// The same for items of up to 2 * kWideVectors, each computed by two multiprocessors (a cluster) that read K and V once
// for both: moving data uses power, and power limits the clock. With few KV heads at once (WideItem) that is 1% at 8192
// tokens and nothing at 32768. head_dim 128, no window and no softcap.
template <typename T>
Result<void> attend_wide_pairs(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                               bool early, cudaStream_t stream);

}  // namespace nanolith::cuda
