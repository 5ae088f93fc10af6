// Cosines and sines of all positions, so that attention rotates queries by a read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/result.h"

namespace nanolith::cuda {

// table[position * num_pairs + i] = cosine and sine of position * frequencies[i], times magnitudes[i] where they are
// not null, for positions below max_position.
Result<void> fill_rope_table(const float* frequencies, const float* magnitudes, int num_pairs, int64_t max_position,
                             float2* table, cudaStream_t stream);

}  // namespace nanolith::cuda
