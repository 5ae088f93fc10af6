// A grid-stride loop, one element a thread and step. Runs once, while a model loads; bound by the copy from the host
// beside it.
#include <algorithm>

#include "device/number.cuh"
#include "executor/convert.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads) convert_kernel(const From* from, To* to, int64_t count) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
        to[i] = from_float<To>(to_float(from[i]));
    }
}

template <typename From, typename To>
Result<void> launch_convert(const void* from, void* to, int64_t count, cudaStream_t stream) {
    const int64_t blocks = std::min(kMaxBlocks, (count + kThreads - 1) / kThreads);
    return launch(convert_kernel<From, To>, LaunchShape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)}, stream,
                  static_cast<const From*>(from), static_cast<To*>(to), count);
}

template <typename From>
Result<void> convert_from(const void* from, void* to, DType to_type, int64_t count, cudaStream_t stream) {
    switch (to_type) {
        case DType::f32:
            return launch_convert<From, float>(from, to, count, stream);
        case DType::f16:
            return launch_convert<From, __half>(from, to, count, stream);
        default:
            return launch_convert<From, __nv_bfloat16>(from, to, count, stream);
    }
}

}  // namespace

Result<void> convert(const void* from, DType from_type, void* to, DType to_type, int64_t count, cudaStream_t stream) {
    switch (from_type) {
        case DType::f32:
            return convert_from<float>(from, to, to_type, count, stream);
        case DType::f16:
            return convert_from<__half>(from, to, to_type, count, stream);
        default:
            return convert_from<__nv_bfloat16>(from, to, to_type, count, stream);
    }
}

}  // namespace nanolith::cuda
