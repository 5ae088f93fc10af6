// The begin of a step: its page table and its embeddings.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "batch/device_batch.h"

namespace nanolith::cuda {

// residual[row] = factor * table[token] as float32: table [vocab, hidden], residual [rows, hidden]. The token is the
// row's, or what drawn[] has of the step before (drawn_by). Makes the step's changes in the page table too, which
// launches behind this one see.
template <typename T>
Result<void> begin_step(const T* table, const BatchView& batch, const int32_t* drawn, int32_t* page_table, float factor,
                        int rows, int hidden, float* residual, cudaStream_t stream);

}  // namespace nanolith::cuda
