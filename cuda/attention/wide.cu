// Attention on Hopper's warpgroup matrix products. The kernel and its description: wide_kernel.cuh.
#include "attention/wide.h"

#include "attention/wide_launch.h"

namespace nanolith::cuda {

namespace {

template <typename T, int kHeadDim, bool kWindow, bool kSoftCap>
Result<void> start_for(const WideArguments<T>& arguments, cudaStream_t stream) {
    constexpr int kTile = kHeadDim <= 128 ? 128 : 64;
    constexpr int kQuerySlots = kHeadDim <= 128 ? 2 : 1;
    return wide::start<wide::Variant<T, kHeadDim, kTile, 2, kQuerySlots, kWindow, kSoftCap>>(arguments, stream);
}

template <typename T, int kHeadDim>
Result<void> start_for_head_dim(const WideArguments<T>& arguments, cudaStream_t stream) {
    if (arguments.soft_cap > 0) {
        return arguments.window > 0 ? start_for<T, kHeadDim, true, true>(arguments, stream)
                                    : start_for<T, kHeadDim, false, true>(arguments, stream);
    }
    return arguments.window > 0 ? start_for<T, kHeadDim, true, false>(arguments, stream)
                                : start_for<T, kHeadDim, false, false>(arguments, stream);
}

}  // namespace

bool wide_takes(const HeadShape& shape, int major) {
    const bool head_dim = shape.head_dim == 64 || shape.head_dim == 96 || shape.head_dim == 128 || shape.head_dim == 256;
    return major == 9 && head_dim;
}

template <typename T>
Result<void> attend_wide(const WideArguments<T>& arguments, cudaStream_t stream) {
    switch (arguments.shape.head_dim) {
        case 64:
            return start_for_head_dim<T, 64>(arguments, stream);
        case 96:
            return start_for_head_dim<T, 96>(arguments, stream);
        case 128:
            return start_for_head_dim<T, 128>(arguments, stream);
        case 256:
            return start_for_head_dim<T, 256>(arguments, stream);
        default:
            return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", arguments.shape.head_dim,
                        ", expected 64, 96, 128 or 256");
    }
}

template Result<void> attend_wide(const WideArguments<__half>&, cudaStream_t);
template Result<void> attend_wide(const WideArguments<__nv_bfloat16>&, cudaStream_t);

}  // namespace nanolith::cuda
