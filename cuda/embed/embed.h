// The begin of a step: its page table and its embeddings.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "batch/device_batch.h"
#include "linear/matrix.h"

namespace nanolith::cuda {

// Copies the batch to the device, makes its changes in the page table, and embeds its tokens:
// residual[row] = factor * table[token] as float32, table [vocab, hidden], wide or compact, residual [rows, hidden]. A
// token is the row's, or what drawn[] has of the step before (drawn_by). Later launches see all of it.
template <typename T>
Result<void> begin_step(const DeviceMatrix<T>& table, const HostBatch& batch, const int32_t* drawn, int32_t* page_table,
                        float factor, int rows, float* residual, cudaStream_t stream);

}  // namespace nanolith::cuda
