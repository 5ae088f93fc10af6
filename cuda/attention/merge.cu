// The merging of partial results that no narrow item completes: a block for some units of a KV head.
#include <algorithm>

#include "attention/merge.cuh"
#include "device/dependent.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kMaxBlocks = 64;  // for each KV head

template <typename T>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const __grid_constant__ AttentionArguments<T> a, HeadShape shape, int merges) {
    wait_for_launches_before();
    for (int m = static_cast<int>(blockIdx.x); m < merges; m += static_cast<int>(gridDim.x)) {
        const int place = a.work.merges[m];
        if (place < 0) return;  // so are all that follow
        const int unit = place % a.units.count;
        const int heads = min(a.units.heads, shape.num_heads / shape.num_kv_heads - unit * a.units.heads);
        const int parts = shape.head_dim / 4;
        for (int i = static_cast<int>(threadIdx.x); i < heads * parts; i += kThreads) {
            merge_part<8>(a, shape, place / a.units.count, unit, static_cast<int>(blockIdx.y), i / parts, i % parts * 4);
        }
    }
}

}  // namespace

template <typename T>
Result<void> merge_partials(const AttentionArguments<T>& arguments, const HeadShape& shape, int merges, bool early,
                            cudaStream_t stream) {
    const int blocks = std::min(merges, kMaxBlocks);
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(shape.num_kv_heads)),
                                   dim3(kThreads), 0, early};
    return launch(merge_kernel<T>, launch_shape, stream, arguments, shape, merges);
}

template Result<void> merge_partials(const AttentionArguments<__half>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> merge_partials(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, int, bool,
                                     cudaStream_t);

}  // namespace nanolith::cuda
