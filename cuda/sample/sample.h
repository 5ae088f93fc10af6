// Drawing tokens from logits on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/batch.h"
#include "base/result.h"
#include "sample/draw_tables.h"

namespace nanolith::cuda {

// tokens[i] and tables->sampled[i] are drawn from logits row i as parameters[i] say (SampleParams defines how): logits
// [rows, vocab_size] float32. Where they have a NaN, or none above minus infinity, tables->sampled[i] is kNoToken and
// tokens[i] is 0: the latter are in [0, vocab_size) whatever the logits are. The same logits and parameters give the
// same token, bit for bit. `tables` lies on the device; the host finds what is written to its own memory when the
// launch has ended. Rows of logits are changed while they are drawn from, and are as before in the end. `early`: the
// launch may begin while the previous launch of the stream still runs.
Result<void> sample(float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                    const DrawTables* tables, bool early, cudaStream_t stream);

}  // namespace nanolith::cuda
