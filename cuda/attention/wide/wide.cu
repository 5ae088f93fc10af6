// Attention on Hopper's warpgroup matrix products. The kernel and its description: wide/kernel.cuh.
#include "attention/wide/wide.h"

#include "attention/wide/launch.h"

namespace nanolith::cuda {

namespace {

template <typename T, int kHeadDim>
Result<void> start_for_head_dim(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                                int32_t* counters, bool early, cudaStream_t stream) {
    if (arguments.rule.softcap > 0) {
        return wide::start<wide::Variant<T, kHeadDim, true, true>>(arguments, shape, num_items, counters, early,
                                                                   stream);
    }
    if (arguments.rule.window > 0) {
        return wide::start<wide::Variant<T, kHeadDim, true>>(arguments, shape, num_items, counters, early, stream);
    }
    return wide::start<wide::Variant<T, kHeadDim>>(arguments, shape, num_items, counters, early, stream);
}

}  // namespace

bool wide_supports(const HeadShape& shape, int major) {
    const int dim = shape.head_dim;
    if (major != 9 || (dim != 64 && dim != 96 && dim != 128 && dim != 256)) return false;
    // A build without code for sm_90a has the kernel too, but it is empty.
    cudaFuncAttributes attributes{};
    void (*const kernel)(CUtensorMap, wide::Parameters<__nv_bfloat16>) =
        wide::attention_kernel<wide::Variant<__nv_bfloat16, 128>>;
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.numRegs > 64;
}

template <typename T>
Result<void> attend_wide(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                         int32_t* counters, bool early, cudaStream_t stream) {
    switch (shape.head_dim) {
        case 64:
            return start_for_head_dim<T, 64>(arguments, shape, num_items, counters, early, stream);
        case 96:
            return start_for_head_dim<T, 96>(arguments, shape, num_items, counters, early, stream);
        case 128:
            return start_for_head_dim<T, 128>(arguments, shape, num_items, counters, early, stream);
        case 256:
            return start_for_head_dim<T, 256>(arguments, shape, num_items, counters, early, stream);
        default:
            return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", shape.head_dim, ": expected 64, 96, 128 or 256");
    }
}

template <typename T>
Result<void> attend_wide_pairs(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                               bool early, cudaStream_t stream) {
    if (shape.head_dim != 128 || arguments.rule.softcap > 0 || arguments.rule.window > 0) {
        return fail(NL_ERROR_INTERNAL, "attend_wide_pairs was given head_dim ", shape.head_dim, ", window ",
                    arguments.rule.window, ", softcap ", arguments.rule.softcap, ": expected 128, 0 and 0");
    }
    return wide::start<wide::Variant<T, 128, false, false, 2>>(arguments, shape, num_items, nullptr, early, stream);
}

#define NL_INSTANTIATE(T)                                                                                  \
    template Result<void> attend_wide(const AttentionArguments<T>&, const HeadShape&, int, int32_t*, bool, \
                                      cudaStream_t);                                                       \
    template Result<void> attend_wide_pairs(const AttentionArguments<T>&, const HeadShape&, int, bool, cudaStream_t);
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
