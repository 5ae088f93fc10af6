// A block for each head of each row: a pass for the sum of squares, a second (from cache) for the result. Bytes: each
// element read and written once. Bound by memory, for few rows by the launch.
#include "norm/norm_rows.h"

#include "device/head_warp.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "runtime/head_rows.h"
#include "runtime/launch.h"
#include "runtime/with_type.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    norm_rows_kernel(const T* x, const T* weight, T* y, RmsNormArguments a, RowLayout from, RowLayout to) {
    const T* const row = x + from.offset(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
    T* const target = y + to.offset(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
    float squares = 0;
    for (int i = static_cast<int>(threadIdx.x); i < a.size; i += kThreads) {
        const float value = to_float(row[i]);
        squares = fmaf(value, value, squares);
    }
    const float scale = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(a.size) + a.epsilon);
    for (int i = static_cast<int>(threadIdx.x); i < a.size; i += kThreads) {
        target[i] = from_float<T>(to_float(row[i]) * scale * to_float(weight[i]));
    }
}

}  // namespace

Result<void> norm_rows(const RmsNormArguments& arguments, cudaStream_t stream) {
    if (arguments.num_rows == 0) return {};
    NL_TRY(check_grid_rows(arguments.num_rows));
    const dim3 grid(static_cast<unsigned>(arguments.num_rows), static_cast<unsigned>(arguments.num_heads));
    const LaunchShape launch_shape{grid, dim3(kThreads)};
    return with_type(arguments.dtype, [&]<typename T>(T) -> Result<void> {
        return launch(norm_rows_kernel<T>, launch_shape, stream, static_cast<const T*>(arguments.x.data),
                      static_cast<const T*>(arguments.weight), static_cast<T*>(arguments.y.data), arguments,
                      layout_of(arguments.x), layout_of(arguments.y));
    });
}

}  // namespace nanolith::cuda
