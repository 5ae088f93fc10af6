// Attention on Hopper's warpgroup matrix products. The kernel and its description: wide_kernel.cuh.
#include "attention/wide.h"

#include "attention/wide_launch.h"

namespace nanolith::cuda {

namespace {

template <typename T, int kHeadDim, bool kWindow, bool kSoftCap>
Result<void> start_for(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items, int32_t* counters,
                       cudaStream_t stream) {
    constexpr int kTile = kHeadDim <= 128 ? 128 : 64;
    constexpr int kQuerySlots = kHeadDim <= 128 ? 2 : 1;
    return wide::start<wide::Variant<T, kHeadDim, kTile, 2, kQuerySlots, kWindow, kSoftCap>>(
        arguments, shape, num_items, counters, stream);
}

template <typename T, int kHeadDim>
Result<void> start_for_head_dim(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                                int32_t* counters, cudaStream_t stream) {
    if (arguments.softcap > 0) return start_for<T, kHeadDim, true, true>(arguments, shape, num_items, counters, stream);
    return arguments.window > 0 ? start_for<T, kHeadDim, true, false>(arguments, shape, num_items, counters, stream)
                                : start_for<T, kHeadDim, false, false>(arguments, shape, num_items, counters, stream);
}

}  // namespace

bool wide_supported(const HeadShape& shape, int compute_capability_major) {
    const int dim = shape.head_dim;
    if (compute_capability_major != 9 || (dim != 64 && dim != 96 && dim != 128 && dim != 256)) return false;
    // Without code for sm_90a the kernel is there, but empty.
    cudaFuncAttributes attributes{};
    void (*const kernel)(CUtensorMap, wide::Parameters<__nv_bfloat16>) =
        wide::attention_kernel<wide::Variant<__nv_bfloat16, 128, 128, 2, 2>>;
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.numRegs > 64;
}

template <typename T>
Result<void> attend_wide(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                         int32_t* counters, cudaStream_t stream) {
    switch (shape.head_dim) {
        case 64:
            return start_for_head_dim<T, 64>(arguments, shape, num_items, counters, stream);
        case 96:
            return start_for_head_dim<T, 96>(arguments, shape, num_items, counters, stream);
        case 128:
            return start_for_head_dim<T, 128>(arguments, shape, num_items, counters, stream);
        case 256:
            return start_for_head_dim<T, 256>(arguments, shape, num_items, counters, stream);
        default:
            return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", shape.head_dim, ", expected 64, 96, 128 or 256");
    }
}

template Result<void> attend_wide(const AttentionArguments<__half>&, const HeadShape&, int, int32_t*, cudaStream_t);
template Result<void> attend_wide(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, int, int32_t*,
                                  cudaStream_t);

}  // namespace nanolith::cuda
