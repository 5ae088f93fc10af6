// A warp for each head of each row. Bytes: each element read and written once, by 2- or 4-byte accesses of neighbouring
// lanes. Bound by memory, for few rows by the launch.
#include "rope/rotate_rows.h"

#include "device/head_warp.cuh"
#include "device/number.cuh"
#include "device/rope.cuh"
#include "runtime/head_rows.h"
#include "runtime/launch.h"
#include "runtime/with_type.h"

namespace nanolith::cuda {

namespace {

template <typename T>
__global__ void __launch_bounds__(kHeadWarps* kWarp)
    rotate_rows_kernel(const T* x, T* y, RopeArguments a, RowLayout from, RowLayout to) {
    const HeadWarp at = head_warp();
    if (at.head >= a.num_heads) return;
    const int half = a.head_dim / 2;
    const T* const row = x + from.offset(at.row, at.head);
    T* const target = y + to.offset(at.row, at.head);
    for (int i = at.lane; i < half; i += kWarp) {
        const float low = to_float(row[i]);
        const float high = to_float(row[i + half]);
        const float2 rotation = rope_rotation(a.positions[at.row], a.frequencies[i]);
        target[i] = from_float<T>(low * rotation.x - high * rotation.y);
        target[i + half] = from_float<T>(high * rotation.x + low * rotation.y);
    }
}

}  // namespace

Result<void> rotate_rows(const RopeArguments& arguments, cudaStream_t stream) {
    if (arguments.num_rows == 0) return {};
    NL_ASSIGN(const LaunchShape launch_shape, head_warps(arguments.num_rows, arguments.num_heads));
    return with_type(arguments.dtype, [&]<typename T>(T) -> Result<void> {
        return launch(rotate_rows_kernel<T>, launch_shape, stream, static_cast<const T*>(arguments.x.data),
                      static_cast<T*>(arguments.y.data), arguments, layout_of(arguments.x), layout_of(arguments.y));
    });
}

}  // namespace nanolith::cuda
