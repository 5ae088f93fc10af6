// Stands in for cuda/attention/wide.cu: a device without the wide kernel.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/wide.h"

namespace nanolith::cuda {

bool wide_takes(const HeadShape&, int) {
    return false;
}

template <typename T>
Result<void> attend_wide(const WideArguments<T>&, cudaStream_t) {
    return fail(NL_ERROR_UNSUPPORTED, "the emulation has no wide kernel");
}

template Result<void> attend_wide(const WideArguments<__half>&, cudaStream_t);
template Result<void> attend_wide(const WideArguments<__nv_bfloat16>&, cudaStream_t);

}  // namespace nanolith::cuda
