// A warp for each head of each row. Bytes: each part's element and log-sum-exp read once, each output element written
// once, by 2- or 4-byte accesses of neighbouring lanes. Bound by memory, for few rows by the launch.
#include "attention/merge/merge_rows.h"

#include "device/head_warp.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "runtime/head_rows.h"
#include "runtime/launch.h"
#include "runtime/with_type.h"

namespace nanolith::cuda {

namespace {

template <typename T>
__global__ void __launch_bounds__(kHeadWarps* kWarp)
    merge_rows_kernel(const T* outputs, T* out, MergeArguments a, RowLayout from, RowLayout to) {
    const HeadWarp at = head_warp();
    if (at.head >= a.num_heads) return;
    const float* const lse = a.lse + static_cast<int64_t>(at.row) * a.num_heads + at.head;
    float highest = -INFINITY;
    for (int64_t p = at.lane; p < a.num_parts; p += kWarp) highest = fmaxf(highest, lse[p * a.lse_part_stride]);
    highest = warp_max(highest);
    if (highest == -INFINITY) highest = 0;  // no part has a key, but one may be NaN
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

}  // namespace

Result<void> merge_rows(const MergeArguments& arguments, cudaStream_t stream) {
    if (arguments.num_rows == 0) return {};
    NL_ASSIGN(const LaunchShape launch_shape, head_warps(arguments.num_rows, arguments.num_heads));
    return with_type(arguments.dtype, [&]<typename T>(T) -> Result<void> {
        return launch(merge_rows_kernel<T>, launch_shape, stream, static_cast<const T*>(arguments.outputs.data),
                      static_cast<T*>(arguments.out.data), arguments, layout_of(arguments.outputs),
                      layout_of(arguments.out));
    });
}

}  // namespace nanolith::cuda
