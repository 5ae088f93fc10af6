// Stands in for cuda/attention/wide and cuda/attention/narrow: a device without Hopper's kernels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/narrow/narrow.h"
#include "attention/wide/wide.h"

namespace nanolith::cuda {

bool wide_supports(const HeadShape&, int) {
    return false;
}

template <typename T>
Result<void> attend_wide(const AttentionArguments<T>&, const HeadShape&, int, int32_t*, bool, cudaStream_t) {
    return fail(NL_ERROR_UNSUPPORTED, "the emulation has no wide kernel");
}

template <typename T>
Result<void> attend_wide_pairs(const AttentionArguments<T>&, const HeadShape&, int, bool, cudaStream_t) {
    return fail(NL_ERROR_UNSUPPORTED, "the emulation has no wide kernel");
}

bool narrow_supports(const HeadShape&, int) {
    return false;
}

template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>&, const ProjectedRows<T>&, const HeadShape&, const NarrowLaunch&,
                           cudaStream_t) {
    return fail(NL_ERROR_UNSUPPORTED, "the emulation has no narrow kernel for Hopper");
}

template Result<void> attend_narrow(const AttentionArguments<__half>&, const ProjectedRows<__half>&, const HeadShape&,
                                    const NarrowLaunch&, cudaStream_t);
template Result<void> attend_narrow(const AttentionArguments<__nv_bfloat16>&, const ProjectedRows<__nv_bfloat16>&,
                                    const HeadShape&, const NarrowLaunch&, cudaStream_t);
template Result<void> attend_wide_pairs(const AttentionArguments<__half>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> attend_wide_pairs(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, int, bool,
                                        cudaStream_t);
template Result<void> attend_wide(const AttentionArguments<__half>&, const HeadShape&, int, int32_t*, bool,
                                  cudaStream_t);
template Result<void> attend_wide(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, int, int32_t*, bool,
                                  cudaStream_t);

}  // namespace nanolith::cuda
