// Tiling: a cluster of blocks for each sequence and KV head. A block has an equal share of the sequence's tiles of 16
// tokens, all of them in shared memory at once. Its warps finish the queries (one set for each rotation) and the keys
// and values of this step that are among its tiles, a head a warp; then take a tile with 16 query vectors each: scores
// and weights; then 16 elements of the head each: outputs over all tiles of the block, which they send to the block of
// the cluster that merges these elements, through its shared memory.
//
// Bytes: K and V of all tokens, read before the wait for the launches before this one, so that nothing but the rows of
// this step is read after it. Flops: 64 * tokens * head_dim for each 16 vectors. 92 to 106 registers, no spills
// (sm_90a, nvcc 13.0).
//
// Bound by the chain of steps that each wait for the one before, and by fetching the instructions of each: what runs
// once is not unrolled, and what does not depend on the launches before this one is computed before the wait for them.
// Of the 6,010 cycles after it for Qwen3-0.6B's shape at 128 tokens on an H200, queries take 1,190, scores 1,660,
// outputs 1,260, meeting the other blocks of the cluster 1,140 and merging 760.
#include "attention/short/short.h"

#include "attention/short/attend.cuh"
#include "attention/short/heads.cuh"
#include "device/dependent.cuh"
#include "runtime/cluster_launch.h"

namespace nanolith::cuda {

namespace short_attention {

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, 2)
    short_kernel(const __grid_constant__ ShortArguments<T> a, HeadShape shape, ShortSizes sizes) {
    let_next_launch_begin();
    cluster_arrive();  // the first time: others may write to this block's shared memory, since it runs
    const Block<T, kDim> block(a, shape, sizes);
    block.fetch_tiles(a.pages, shape);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    SliceMerge<T, kDim> merge(block, a, shape);
    HeadWork<T, kDim> heads(block, a, shape);
#pragma unroll 1
    for (int job = warp; job < heads.count(); job += kWarps) {
        heads.prepare(job);
        wait_for_launches_before();
        heads.run();
    }
    wait_for_launches_before();
    wait_for_copies<0>();
    __syncthreads();
    const int vector_tiles = block.vector_tiles();
#pragma unroll 1
    for (int unit = warp; unit < block.num_tiles() * vector_tiles; unit += kWarps)
        weigh_unit(block, a.rule, unit / vector_tiles, unit % vector_tiles);
    __syncthreads();
    cluster_wait();
    if (block.num_tiles() > 0) {
#pragma unroll 1
        for (int unit = warp; unit < kDim / 16 * vector_tiles; unit += kWarps)
            send_slice(block, unit % (kDim / 16), unit / (kDim / 16));
    }
    cluster_arrive();
    cluster_wait();
    merge.run();
}

template <typename T, int kDim>
Result<void> start(const ShortArguments<T>& arguments, const HeadShape& shape, const ShortCounts& counts, bool early,
                   cudaStream_t stream) {
    const ShortSizes sizes = short_sizes(counts, shape.head_dim, shape.num_heads / shape.num_kv_heads);
    const dim3 grid(static_cast<unsigned>(counts.cluster),
                    static_cast<unsigned>(counts.sequences * shape.num_kv_heads));
    const LaunchShape launch_shape{grid, dim3(kThreads), static_cast<size_t>(sizes.bytes()), early};
    return launch_cluster(short_kernel<T, kDim>, launch_shape, counts.cluster, stream, arguments, shape, sizes);
}

}  // namespace short_attention

bool short_supports(int major) {
    if (major != 9) return false;
    // A build for older devices alone has the kernel too, but it traps.
    cudaFuncAttributes attributes{};
    void (*const kernel)(ShortArguments<__half>, HeadShape, ShortSizes) = short_attention::short_kernel<__half, 64>;
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.ptxVersion >= 90;
}

template <typename T>
Result<void> attend_short(const ShortArguments<T>& arguments, const HeadShape& shape, const ShortCounts& counts,
                          bool early, cudaStream_t stream) {
    switch (short_dim(shape.head_dim)) {
        case 64:
            return short_attention::start<T, 64>(arguments, shape, counts, early, stream);
        case 96:
            return short_attention::start<T, 96>(arguments, shape, counts, early, stream);
        case 128:
            return short_attention::start<T, 128>(arguments, shape, counts, early, stream);
        default:
            return short_attention::start<T, 256>(arguments, shape, counts, early, stream);
    }
}

template Result<void> attend_short(const ShortArguments<__half>&, const HeadShape&, const ShortCounts&, bool,
                                   cudaStream_t);
template Result<void> attend_short(const ShortArguments<__nv_bfloat16>&, const HeadShape&, const ShortCounts&, bool,
                                   cudaStream_t);

}  // namespace nanolith::cuda
