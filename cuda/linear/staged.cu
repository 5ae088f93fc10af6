// Tiling: the weight rows are divided into strips of up to 16 tiles of 16. A thread block goes through the columns of a
// strip 256, 128 or 64 at a time, a stage: one thread has the copy engine bring these columns of the strip and of all
// rows of x to shared memory, which has three stages or more, and two warpgroups multiply them with wgmma. Weights are
// the operand A, 64 rows at a time, x is B (StagedProduct). Up to four thread blocks, a cluster, share the columns of
// a strip; each adds up the cluster's partial sums of some rows of x, always in the same order, and writes those
// outputs. Where there are more strips than thread blocks, each has several, one after the other.
//
// Bytes: each weight once from memory; x once from L2 for every strip. Flops: 2 * rows * outputs * size, with rows in
// 16, 32, 64 or 96. A strip takes as many tiles as let all multiprocessors have the same work, and as many thread
// blocks as balance re-reading x with adding up sums (divide_staged).
//
// Bound by memory where matrices are large: gate and up of Llama-3.1-8B come at 4.2 TB/s with 16 rows on an H200, with
// 64 rows at 4.0. Small matrices are bound by what a launch takes besides: reading x behind the wait for the launches
// before (1 us), the last products, a cluster's two barriers and the instructions of all that, which each launch
// fetches anew. So loops that are not the innermost are not unrolled, and where half of the shared memory will do,
// the next launch's weights come meanwhile. 42 to 58 registers with up to 32 rows, 90 with 64 and 122 with 96; for
// logits up to 86, 154 and 168 (sm_90a, nvcc 13.0).
#include "linear/staged.h"

#include "device/dependent.cuh"
#include "linear/staged_division.h"
#include "linear/staged_output.cuh"
#include "linear/staged_product.cuh"
#include "linear/staged_ring.cuh"
#include "runtime/check.h"
#include "runtime/cluster_launch.h"
#include "runtime/tensor_map.h"

namespace nanolith::cuda {

namespace {

constexpr int kStagedThreads = (kStagedWarps + 1) * kWarp;  // the last warp has the thread that fills the stages

// Writes a strip's outputs from the warp's registers.
template <typename Outputs, typename Product>
__device__ void put_products(const Product& product, const StagedDivision& division, int strip, const Outputs& to) {
    static_assert(!Outputs::kGated);  // another warp may have the sums of an output's second weight row
    const int first = strip * division.tiles * kStagedTile;
    product.for_each([&](int row, int weight_row, float sum) {
        const int output = first + weight_row;
        if (row < division.rows && output < to.outputs) to.one(static_cast<int64_t>(row) * to.outputs + output, sum, 0);
    });
}

// Called by the multiplying warps. Multiplies the block's columns, once for each strip of its cluster. If clusters have
// one strip each, `product` has the strip's sums afterwards. If they have several (StagedDivision::several_strips), the
// outputs of each strip are written before the next one begins, and `product` is of no more use.
template <typename T, int kRows, typename Outputs>
__device__ void multiply_strips(const StagedBlock<kRows>& block, StagedProduct<T, kRows>& product, const Outputs& to) {
    const StagedDivision& division = block.division;
    StageOfRing stage;
#pragma unroll 1
    for (int strip = block.strip; strip < division.end_strip; strip += division.clusters) {
        product.clear();
#pragma unroll 1
        for (int step = block.first; step < block.end; ++step) {
            barrier_wait(block.full + stage.index, stage.parity, "a stage");
            product.add(block.x(stage.index), block.weights(stage.index),
                        division.tiles * (kStagedTile * kStageLineBytes), division.lines);
            __syncwarp();
            if (threadIdx.x % kWarp == 0) barrier_arrive(block.empty + stage.index);
            stage.advance(division.stages);
        }
        if constexpr (Outputs::kSeveralStrips) {
            if (!division.several_strips()) return;
            put_products(product, division, strip, to);
        }
    }
}

template <typename T, int kRows, typename Outputs>
__global__ void __launch_bounds__(kStagedThreads, kRows <= 64 && !Outputs::kSeveralStrips ? 2 : 1)
    staged_kernel(const __grid_constant__ CUtensorMap weights, const __grid_constant__ CUtensorMap x,
                  const __grid_constant__ StagedDivision division, const Outputs to) {
// Only code for sm_90a may use wgmma. Builds for other GPUs have this kernel, too, and never start it.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    let_next_launch_begin();
    const StagedBlock<kRows> block(division);
    // The shuffle tells nvcc that all lanes of a warp have the same number.
    const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / kWarp), 0);
    const bool multiplies = warp < kStagedWarps;
    const bool fills = threadIdx.x == kStagedWarps * kWarp;
    StageFiller<kRows, kTileOutputs<Outputs>> filler(block, &weights, &x);
    StagedProduct<T, kRows> product(warp, division.tiles);
    if (fills) filler.begin();
    __syncthreads();  // the stages' barriers are there
    wait_for_launches_before();
    if (multiplies) {
        multiply_strips(block, product, to);
    } else {
        if (fills) filler.finish();
        __syncwarp();
    }
    if (division.several_strips() || !block.has_strips()) return;
    __syncthreads();  // the sums overwrite the stages, which all have read now
    auto* const sums = reinterpret_cast<float*>(block.stages);
    if (multiplies) product.template leave<kSumsRow>(sums);
    if (division.splits == 1) {
        __syncthreads();
        put_staged<kStagedThreads>(sums, division, block.strip, to);
        return;
    }
    cluster_arrive();
    cluster_wait();
    put_staged<kStagedThreads>(sums, division, block.strip, to);
    cluster_arrive_after_reading();  // a block must not end while others read its sums
    cluster_wait();
#endif
}

// The map of [parts][rows][size], whose boxes have `box_rows` rows of each part and `lines` lines of columns.
template <typename T>
Result<CUtensorMap> map_lines(const T* base, int parts, int rows, int size, int box_rows, int lines) {
    const auto row_bytes = static_cast<uint64_t>(size) * sizeof(T);
    const TensorBox tensor{
        .type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        .sizes = {kStageLine, static_cast<uint64_t>(rows), static_cast<uint64_t>(parts),
                  static_cast<uint64_t>(size) / kStageLine},
        .strides = {row_bytes, row_bytes * static_cast<uint64_t>(rows), kStageLineBytes},
        .extents = {kStageLine, static_cast<uint32_t>(box_rows), static_cast<uint32_t>(parts),
                    static_cast<uint32_t>(lines)},
    };
    return make_tensor_map(base, tensor, "a product of few rows");
}

template <typename T, int kRows, typename Outputs>
Result<void> launch_staged(const StagedRows<T>& x, const T* weight, const Outputs& to, const StagedLaunch& how) {
    constexpr int kParts = Outputs::kGated ? 2 : 1;
    StagedDivision division = divide_staged(x.rows, kRows, x.size, kParts * to.outputs, how.clusters);
    const int outputs = division.tiles * kTileOutputs<Outputs>;  // of a strip
    NL_ASSIGN(const CUtensorMap weights, map_lines(weight, kParts, to.outputs, x.size, outputs, division.lines));
    NL_ASSIGN(const CUtensorMap rows, map_lines(x.x, 1, x.rows, x.size, kRows, division.lines));
    const auto blocks = static_cast<unsigned>(division.launched * division.splits);
    const LaunchShape shape{dim3(blocks), dim3(kStagedThreads), division.shared_bytes(how.alone), true};
    // One launch for all strips, or one for as many strips as there are clusters, each of which then has one.
    const int strips = division.end_strip;
    const int at_once = Outputs::kSeveralStrips ? strips : division.clusters;
    for (int first = 0; first < strips; first += at_once) {
        division.first_strip = first;
        division.end_strip = std::min(first + at_once, strips);
        NL_TRY(launch_cluster(staged_kernel<T, kRows, Outputs>, shape, division.splits, how.stream, weights, rows,
                              division, to));
    }
    return {};
}

template <typename T, typename Outputs>
Result<void> start_staged(const StagedRows<T>& x, const T* weight, const Outputs& to, const StagedLaunch& how) {
    const auto launch_for = x.rows <= 16   ? launch_staged<T, 16, Outputs>
                            : x.rows <= 32 ? launch_staged<T, 32, Outputs>
                            : x.rows <= 64 ? launch_staged<T, 64, Outputs>
                                           : launch_staged<T, 96, Outputs>;
    return launch_for(x, weight, to, how);
}

}  // namespace

Result<ClustersAtOnce> find_staged_clusters() {
    // Any kernel of this file will do: with so much shared memory each thread block fills a multiprocessor.
    static_assert(kStagedSplits <= kMostClusterBlocks);
    return find_clusters(reinterpret_cast<const void*>(staged_kernel<__half, 16, StoreOutputs<__half>>), kStagedThreads,
                         kStagedShared + kBesideStages);
}

bool staged_supports(int rows, int size, const ClustersAtOnce& clusters) {
    return clusters.most[1] > 0 && rows <= kStagedRows && size % kStageLine == 0;
}

template <typename T>
Result<void> staged_gate_up(const StagedRows<T>& x, const T* gate_up, Activation activation, int outputs, T* to,
                            const StagedLaunch& how) {
    return start_staged(x, gate_up, GateOutputs<T>{to, outputs, activation}, how);
}

template <typename T, typename Output>
Result<void> staged(const StagedRows<T>& x, const T* weight, int outputs, Output* to, const StagedLaunch& how) {
    return start_staged(x, weight, StoreOutputs<Output>{to, outputs}, how);
}

template <typename T>
Result<void> staged_add(const StagedRows<T>& x, const T* weight, int outputs, float* residual,
                        const StagedLaunch& how) {
    return start_staged(x, weight, AddOutputs{residual, outputs}, how);
}

#define NL_INSTANTIATE(T)                                                                                           \
    template Result<void> staged_gate_up(const StagedRows<T>&, const T*, Activation, int, T*, const StagedLaunch&); \
    template Result<void> staged_add(const StagedRows<T>&, const T*, int, float*, const StagedLaunch&);             \
    template Result<void> staged(const StagedRows<T>&, const T*, int, float*, const StagedLaunch&);                 \
    template Result<void> staged(const StagedRows<T>&, const T*, int, T*, const StagedLaunch&);
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
