#include "attention/attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/narrow/narrow.h"
#include "attention/wide/wide.h"

namespace nanolith::cuda {

// The wide kernel is launched first. The narrow one may begin while it runs, on the multiprocessors that it leaves free
// (plan/overlap.h), and merges the partial results of both.
template <typename T>
Result<void> attend(const AttentionArguments<T>& arguments, const HeadShape& shape, const AttentionLaunch& what,
                    cudaStream_t stream) {
    if (what.wide_items > 0 && what.pairs) {
        NL_TRY(attend_wide_pairs(arguments, shape, what.wide_items, what.early, stream));
    } else if (what.wide_items > 0) {
        NL_TRY(attend_wide(arguments, shape, what.wide_items, arguments.partial.wide_counters, what.early, stream));
    }
    if (what.narrow_blocks > 0 && what.kernel == NarrowKernel::hopper) {
        const NarrowLaunch narrow{what.narrow_blocks, what.fp8, what.wide_items > 0, what.early};
        NL_TRY(attend_narrow(arguments, ProjectedRows<T>(), shape, narrow, stream));
    } else if (what.narrow_blocks > 0) {
        NL_TRY(attend_portable(arguments, shape, what.narrow_blocks, stream));
    }
    return {};
}

template <>
Result<void> attend(const AttentionArguments<float>& arguments, const HeadShape& shape, const AttentionLaunch& what,
                    cudaStream_t stream) {
    if (what.narrow_blocks == 0) return {};
    return attend_plain(arguments, shape, what.narrow_blocks, stream);
}

template Result<void> attend(const AttentionArguments<__half>&, const HeadShape&, const AttentionLaunch&, cudaStream_t);
template Result<void> attend(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, const AttentionLaunch&,
                             cudaStream_t);

}  // namespace nanolith::cuda
