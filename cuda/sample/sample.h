// Drawing tokens from logits on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/batch.h"
#include "base/result.h"

namespace nanolith::cuda {

// tokens[i] and (*copy)[i] are drawn from logits row i as parameters[i] say (the sampling options of nanolith.h define
// how): logits [rows, vocab_size] float32. Where they have a NaN, or none above minus infinity, (*copy)[i] is kNoToken
// and tokens[i] is 0: the latter are in [0, vocab_size) whatever the logits are. The same logits and parameters give
// the same token, bit for bit. `copy` lies on the device and names page-locked host memory, where the host finds them
// when the launch has ended. `early`: the launch may begin while the previous launch of the stream still runs.
Result<void> sample(const float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                    int32_t* const* copy, bool early, cudaStream_t stream);

}  // namespace nanolith::cuda
