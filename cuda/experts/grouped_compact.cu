// Tiling: the weight rows of each chosen expert's matrix (the grid's y) are divided into strips of up to 256. A thread
// block has 16 warps, each of which computes the outputs of one tile of 16 weight rows. The thread block goes through
// the strip's columns 256 at a time. All its warps multiply with the same 256 columns of x: cp.async copies these to
// shared memory, which has room for three such pieces. Each warp has a ring of buffers in shared memory, to which
// the copy engine brings the blocks of its tile (compact/layout.h). The warp widens the codes in registers; wgmma takes
// them from there as its operand A and x as its operand B. An expert's pairs are multiplied 16 at a time, and for each
// further 16 pairs the strip's weights are fetched again.
//
// Where there are fewer strips than multiprocessors, up to eight thread blocks, a cluster, divide the columns of a
// strip among them. When all have written their partial sums to shared memory, each thread block adds up the sums of
// some of the pairs, always in the order of the thread blocks, and writes the outputs of these pairs.
//
// Bytes: the weights of the chosen experts once from memory and again from L2 for each further 16 pairs; every pair's
// row once for each strip from L2. Flops: 2 * pairs * outputs * size, with pairs in sixteens. Bound by memory and by
// the issue of instructions: widening two 8-bit codes takes about five, most of them on units that accept one every
// second cycle, and forms with groups scale each group's sums besides.
#include "experts/grouped_compact.h"

#include "compact/forms.h"
#include "device/dependent.cuh"
#include "experts/chosen.cuh"
#include "experts/tiled_division.h"
#include "experts/tiled_strip.cuh"
#include "runtime/cluster_launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kPairs = 16;  // at a time

template <typename T, typename Traits>
using X = TiledX<T, Traits, kPairs, kTiledThreads>;

// Lists the rows of x that `count` pairs from `first` on have, the last one again up to kPairs.
template <typename T>
__device__ void list_rows(const GroupedProduct<T>& product, int first, int count, int32_t* list) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < kPairs) {
        const int pair = first + min(i, count - 1);
        list[i] = product.pairs != nullptr ? product.pairs[pair] / product.top_k : pair;
    }
    __syncthreads();
}

template <typename T, typename Traits>
__global__ void __launch_bounds__(kTiledThreads, 1)
    grouped_compact_kernel(const GroupedProduct<T> product, const CompactMatrix matrix, const TiledDivision division,
                           const CompactOutput output) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    __shared__ int32_t rows[kPairs];
    let_next_launch_begin();
    wait_for_launches_before();
    const int expert = chosen_expert(product.begins, product.experts, static_cast<int>(blockIdx.y));
    if (expert < 0) return;
    TiledStrip<T, Traits, X<T, Traits>, kPairs> strip(matrix, division, static_cast<int>(blockIdx.x) / division.splits);
    const std::byte* const tiles = matrix.tiles + expert * matrix.bytes();
    const int end = product.begins[expert + 1];
    for (int first = product.begins[expert]; first < end; first += kPairs) {
        strip.start(tiles);
        const int count = min(end - first, kPairs);
        list_rows(product, first, count, rows);
        strip.multiply({product.x, rows, matrix.size}, count, output.behind_rows(first));
        // The copy engine is to write where partial sums were, and the list is to be written anew.
        fence_async_proxy();
        __syncthreads();
    }
#endif
}

template <typename T, typename Traits>
Result<void> start(const GroupedProduct<T>& product, const CompactMatrix& matrix, const CompactOutput& output,
                   const ClustersAtOnce& clusters, cudaStream_t stream) {
    const int experts = product.most_chosen();
    const auto division = divide_for<X<T, Traits>, kPairs>(matrix, experts, clusters);
    const dim3 grid(static_cast<unsigned>(division.thread_blocks()), static_cast<unsigned>(experts));
    const LaunchShape shape{grid, dim3(kTiledThreads), static_cast<size_t>(division.bytes), true};
    return launch_cluster(grouped_compact_kernel<T, Traits>, shape, division.splits, stream, product, matrix, division,
                          output);
}

}  // namespace

bool grouped_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu) {
    return rounded_compact_supports(layout, size, gpu);
}

template <typename T>
Result<void> multiply_grouped_compact(const GroupedProduct<T>& product, const CompactMatrix& first,
                                      const CompactOutput& output, const ClustersAtOnce& clusters,
                                      cudaStream_t stream) {
    const auto use = [&](auto traits) { return start<T, decltype(traits)>(product, first, output, clusters, stream); };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "experts' weights: expected a form that grouped_compact_supports()");
    };
    return CompactForms::with(first.layout, use, refuse);
}

template Result<void> multiply_grouped_compact(const GroupedProduct<__half>&, const CompactMatrix&,
                                               const CompactOutput&, const ClustersAtOnce&, cudaStream_t);
template Result<void> multiply_grouped_compact(const GroupedProduct<__nv_bfloat16>&, const CompactMatrix&,
                                               const CompactOutput&, const ClustersAtOnce&, cudaStream_t);

}  // namespace nanolith::cuda
