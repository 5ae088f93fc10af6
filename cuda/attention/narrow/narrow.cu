// Attention of up to 16 query vectors a KV head on Hopper: decode.
//
// Tiling: a block on each multiprocessor computes a list of items one after the other, each for one KV head. Two warps
// start the copies (TMA) of tiles of 32 or 64 tokens of K and V, one warp prepares the next item's queries, and 4 pairs
// of warps (2 at head_dim 256) consume the tiles in rotation; each warp of a pair attends to half of the tile's tokens
// with all of the item's vectors. Shared memory has room for 12 tiles (6 at head_dim 256), 192 KiB. While the
// consumers finish an item, tiles of the next item are copied to the room that is free. At most 64 KiB are being copied
// at a time.
// Fp8 pages are widened to float16 between shared memory and the products, which therefore use another order of a
// head's elements and of its outputs.
//
// A block cannot begin before the launch before it has left the multiprocessor, whose shared memory it needs. To lose
// little time then, all consumer warps together prepare the first item's queries (write_first_queries), and one warp
// starts the copies of the first tiles in a few instructions (FirstTiles).
//
// An early launch of few rows copies tiles that this step does not write to before it waits for the launches before it.
//
// In steps of at most eight rows (plan/appending.h) the kernel also does what the append kernel does in others: it adds
// the bias to the projection's queries, keys and values, normalises queries and keys, rotates keys, and writes each
// row's key and value to its page. Then it waits for the projection alone, and before it reads a query it has copied
// all tokens of earlier steps.
//
// At an item's end the warps' results meet in shared memory, and one half of the warps merges them while the other half
// continues; the halves alternate. A narrow item merges the partial results that wide items have of its rows, and a
// block's last item also a few of other blocks'; all others are merged at the blocks' ends. Beside wide items the first
// blocks start when the launches before the wide one have ended, on multiprocessors that the wide kernel does not use
// (overlap.h).
//
// Bytes: K and V once for each item and KV head. Flops: 64 * tokens * head_dim. Bound by memory, and in short launches
// by a chain of dependent steps: item, queries, first tile, merging. An item of 256 tokens takes 3 us, where copies
// alone would take 2. Each launch fetches its instructions from memory anew, which takes about ten cycles for each
// instruction while tiles are being copied. So code that runs once in a launch is kept short.
#include "attention/narrow/narrow.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "attention/common/page_map.h"
#include "attention/narrow/consume.cuh"
#include "attention/narrow/load.cuh"
#include "attention/narrow/prepare.cuh"
#include "device/dependent.cuh"
#include "device/dynamic_shared.cuh"
#include "device/registers.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace narrow {

// Brings the first indices that merge_row_groups reads at the block's end to the cache.
__device__ __forceinline__ void prefetch_merges(const WorkView& work, const ItemWords& first) {
    const Merge* const merges = work.merges + first.first_merge();
    const int count = first.num_merges();
#pragma unroll 1
    for (int i = lane_index(); i < count; i += kWarp) prefetch(work.partials + merges[i].first_partial);
}

template <typename V>
__global__ void __launch_bounds__(V::kThreads, 1)
    narrow_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ Parameters<V> p) {
    Shared<V>& shared = *reinterpret_cast<Shared<V>*>(dynamic_shared_1024());
    const int kv_head = static_cast<int>(blockIdx.x);
    const int block = static_cast<int>(blockIdx.y);
    const int warp = __shfl_sync(kAllLanes, warp_index(), 0);
    const ItemWords first(p.a.work.narrow + block);
    if (warp == V::kWarps && lane_index() == 0) tma_prefetch_map(&map);
    if (warp < V::kWarps) {
        if constexpr (V::kSharesRegisters) increase_registers<V::kConsumerRegisters>();
        named_barrier_sync(kStartBarrier, V::kThreads);
        if (first.num_vectors() > 0) {
            write_first_queries(shared, p, kv_head, first);
            Consumer<V>(shared, p, kv_head).run();
        }
        merge_row_groups<4, V::kDim>(p.a, p.shape, kv_head, first.first_merge(), first.num_merges(),
                                     static_cast<int>(threadIdx.x), V::kConsumers);
    } else {
        if constexpr (V::kSharesRegisters) decrease_registers<V::kProducerRegisters>();
        const int role = warp - V::kWarps;
        if (lane_index() == 0) {
            if (role == 0) init_full_barriers(shared);
            if (role == 1) init_empty_barriers(shared);
            if (role == 2) init_step_barriers(shared);
        }
        __syncwarp();
        named_barrier_arrive(kStartBarrier, V::kThreads);
        const bool has_work = first.num_vectors() > 0;
        if (role < 2 && has_work) {
            const FirstTiles<V> tiles(p, first);
            if (role == 0) tiles.start(shared, p, &map, kv_head, first);
            named_barrier_sync(kLoadBarrier, 2 * kWarp);
            Loader<V>(shared, p, &map, kv_head, role).run(first, tiles.count());
        }
        if (role == 2 && has_work) Preparer<V>(shared, p, kv_head).run(first);
        if (role == 3) prefetch_merges(p.a.work, first);
    }
    wait_for_launches_before();  // so that the next launch also comes after those
}

template <typename V>
Result<void> start(const AttentionArguments<typename V::T>& arguments, const ProjectedRows<typename V::T>& projected,
                   const HeadShape& shape, const NarrowLaunch& what, cudaStream_t stream) {
    constexpr CUtensorMapDataType kType = V::kFp8                                 ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                          : std::is_same_v<typename V::T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const PageBox box{std::min(shape.page_size, V::kTokens), V::kWhole && V::kBoxes > 1};
    NL_ASSIGN(const CUtensorMap map,
              map_pages(arguments.pages, kType, static_cast<int>(sizeof(typename V::P)), shape, box));
    Parameters<V> parameters;
    parameters.a = arguments;
    parameters.projected = projected;
    parameters.shape = shape;
    parameters.heads_per_kv = shape.num_heads / shape.num_kv_heads;
    parameters.page_shift = std::countr_zero(static_cast<unsigned>(shape.page_size));
    parameters.waits = what.early && !what.beside_wide;
    parameters.append_to = static_cast<typename V::T*>(what.append_to);
    parameters.appends = what.append_to != nullptr;
    const dim3 grid(static_cast<unsigned>(shape.num_kv_heads), static_cast<unsigned>(what.blocks));
    const LaunchShape launch_shape{grid, dim3(V::kThreads), sizeof(Shared<V>) + 1024, what.beside_wide || what.early};
    return launch(narrow_kernel<V>, launch_shape, stream, map, parameters);
}

template <typename T, typename P>
Result<void> start_for_head_dim(const AttentionArguments<T>& arguments, const ProjectedRows<T>& projected,
                                const HeadShape& shape, const NarrowLaunch& what, cudaStream_t stream) {
    const int dim = shape.head_dim;
    if (dim <= 64) return start<Variant<T, P, 64, false>>(arguments, projected, shape, what, stream);
    if (dim <= 96) return start<Variant<T, P, 96, false>>(arguments, projected, shape, what, stream);
    if (dim == 128) return start<Variant<T, P, 128, true>>(arguments, projected, shape, what, stream);
    if (dim == 256) return start<Variant<T, P, 256, true>>(arguments, projected, shape, what, stream);
    return start<Variant<T, P, 256, false>>(arguments, projected, shape, what, stream);
}

}  // namespace narrow

bool narrow_supports(const HeadShape& shape, int major) {
    if (major != 9 || shape.head_dim > kMaxHeadDim) return false;
    // A build for older devices alone has the kernel too, but it traps.
    using V = narrow::Variant<__half, __half, 64, false>;
    cudaFuncAttributes attributes{};
    void (*const kernel)(CUtensorMap, narrow::Parameters<V>) = narrow::narrow_kernel<V>;
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.ptxVersion >= 90;
}

template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const ProjectedRows<T>& projected,
                           const HeadShape& shape, const NarrowLaunch& what, cudaStream_t stream) {
    return what.fp8 ? narrow::start_for_head_dim<T, __nv_fp8_e4m3>(arguments, projected, shape, what, stream)
                    : narrow::start_for_head_dim<T, T>(arguments, projected, shape, what, stream);
}

template Result<void> attend_narrow(const AttentionArguments<__half>&, const ProjectedRows<__half>&, const HeadShape&,
                                    const NarrowLaunch&, cudaStream_t);
template Result<void> attend_narrow(const AttentionArguments<__nv_bfloat16>&, const ProjectedRows<__nv_bfloat16>&,
                                    const HeadShape&, const NarrowLaunch&, cudaStream_t);

}  // namespace nanolith::cuda
