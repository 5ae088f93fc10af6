// A warp for each row and head (merge, rotation) or a block for it (norm), rows along the grid's x, heads along
// its y. Bytes: each element read and written once, by 2- or 4-byte accesses of neighbouring lanes. Bound by memory,
// for few rows by the launch.
#include "ops/rows.h"

#include <climits>

#include "attention/head_rows.h"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "device/rope.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kNormThreads = 256;
constexpr int64_t kMaxGridRows = INT_MAX;

struct WarpPlace {
    int row;
    int head;
    int lane;
};

__device__ inline WarpPlace warp_place() {
    return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / kWarp,
            static_cast<int>(threadIdx.x) % kWarp};
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    merge_rows_kernel(const T* outputs, T* out, MergeArguments a, RowLayout from, RowLayout to) {
    const WarpPlace at = warp_place();
    if (at.head >= a.num_heads) return;
    const float* const lse = a.lse + static_cast<int64_t>(at.row) * a.num_heads + at.head;
    float highest = -INFINITY;
    for (int64_t p = at.lane; p < a.num_parts; p += kWarp) highest = fmaxf(highest, lse[p * a.lse_part_stride]);
    highest = warp_max(highest);
    if (highest == -INFINITY) highest = 0;  // no numbers, but there may be NaN
    float total = 0;
    for (int64_t p = at.lane; p < a.num_parts; p += kWarp) total += expf(lse[p * a.lse_part_stride] - highest);
    total = warp_sum(total);
    const T* const parts = outputs + from.offset(at.row, at.head);
    T* const target = out + to.offset(at.row, at.head);
    for (int i = at.lane; i < a.head_dim; i += kWarp) {
        float sum = 0;
        for (int64_t p = 0; p < a.num_parts && total != 0; ++p) {
            const float part = lse[p * a.lse_part_stride];
            if (part != -INFINITY) sum = fmaf(expf(part - highest), to_float(parts[p * a.part_stride + i]), sum);
        }
        target[i] = from_float<T>(total == 0 ? 0.0F : sum / total);
    }
    __syncwarp();  // out_lse may be one of the parts'
    if (at.lane == 0 && a.out_lse != nullptr) {
        a.out_lse[static_cast<int64_t>(at.row) * a.num_heads + at.head] =
            total == 0 ? -INFINITY : highest + logf(total);
    }
}

template <typename T>
__global__ void __launch_bounds__(kNormThreads)
    norm_rows_kernel(const T* x, const T* weight, T* y, RmsNormArguments a, RowLayout from, RowLayout to) {
    const T* const row = x + from.offset(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
    T* const target = y + to.offset(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
    float squares = 0;
    for (int i = static_cast<int>(threadIdx.x); i < a.size; i += kNormThreads) {
        const float value = to_float(row[i]);
        squares = fmaf(value, value, squares);
    }
    const float scale = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(a.size) + a.epsilon);
    for (int i = static_cast<int>(threadIdx.x); i < a.size; i += kNormThreads) {
        target[i] = from_float<T>(to_float(row[i]) * scale * to_float(weight[i]));
    }
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    rotate_rows_kernel(const T* x, T* y, RopeArguments a, RowLayout from, RowLayout to) {
    const WarpPlace at = warp_place();
    if (at.head >= a.num_heads) return;
    const int half = a.head_dim / 2;
    const T* const row = x + from.offset(at.row, at.head);
    T* const target = y + to.offset(at.row, at.head);
    for (int i = at.lane; i < half; i += kWarp) {
        const float low = to_float(row[i]);
        const float high = to_float(row[i + half]);
        const float2 turn = rope_turn(a.positions[at.row], a.frequencies[i]);
        target[i] = from_float<T>(low * turn.x - high * turn.y);
        target[i + half] = from_float<T>(high * turn.x + low * turn.y);
    }
}

Result<LaunchShape> warps_for(int64_t rows, int heads) {
    const int blocks = (heads + kWarps - 1) / kWarps;
    if (rows > kMaxGridRows) {
        return fail(NL_ERROR_UNSUPPORTED, "num_rows is ", rows, ", a CUDA launch takes at most ", kMaxGridRows);
    }
    return LaunchShape{dim3(static_cast<unsigned>(rows), static_cast<unsigned>(blocks)), dim3(kWarps * kWarp)};
}

// Calls visit(T()) for the type of `dtype`.
template <typename Visit>
Result<void> with_type(DType dtype, const Visit& visit) {
    switch (dtype) {
        case DType::f16:
            return visit(__half());
        case DType::bf16:
            return visit(__nv_bfloat16());
        case DType::f32:
        case DType::f8_e4m3:  // of files and pages
            break;
    }
    return visit(float());
}

}  // namespace

Result<void> merge_rows(const MergeArguments& arguments, cudaStream_t stream) {
    if (arguments.num_rows == 0) return {};
    NL_ASSIGN(const LaunchShape launch_shape, warps_for(arguments.num_rows, arguments.num_heads));
    return with_type(arguments.dtype, [&]<typename T>(T) -> Result<void> {
        return launch(merge_rows_kernel<T>, launch_shape, stream, static_cast<const T*>(arguments.outputs.data),
                      static_cast<T*>(arguments.out.data), arguments, layout_of(arguments.outputs),
                      layout_of(arguments.out));
    });
}

Result<void> norm_rows(const RmsNormArguments& arguments, cudaStream_t stream) {
    if (arguments.num_rows == 0) return {};
    LaunchShape launch_shape;
    NL_ASSIGN(launch_shape, warps_for(arguments.num_rows, arguments.num_heads));
    launch_shape.grid.y = static_cast<unsigned>(arguments.num_heads);
    launch_shape.block = dim3(kNormThreads);
    return with_type(arguments.dtype, [&]<typename T>(T) -> Result<void> {
        return launch(norm_rows_kernel<T>, launch_shape, stream, static_cast<const T*>(arguments.x.data),
                      static_cast<const T*>(arguments.weight), static_cast<T*>(arguments.y.data), arguments,
                      layout_of(arguments.x), layout_of(arguments.y));
    });
}

Result<void> rotate_rows(const RopeArguments& arguments, cudaStream_t stream) {
    if (arguments.num_rows == 0) return {};
    NL_ASSIGN(const LaunchShape launch_shape, warps_for(arguments.num_rows, arguments.num_heads));
    return with_type(arguments.dtype, [&]<typename T>(T) -> Result<void> {
        return launch(rotate_rows_kernel<T>, launch_shape, stream, static_cast<const T*>(arguments.x.data),
                      static_cast<T*>(arguments.y.data), arguments, layout_of(arguments.x), layout_of(arguments.y));
    });
}

}  // namespace nanolith::cuda
