// Tiling: that of compact/rounded_compact.cu, without clusters. A thread block has a strip of an expert's weight rows
// (the grid's x) and a tile of up to 64, 128 or 256 of its pairs (the grid's y). Where the pairs' rows are not adjacent
// in x, a launch before gathers them.
//
// Bytes: the weights of the chosen experts once from memory and again from L2 for each further tile of pairs; every
// pair's row once for each strip from L2. Flops: 2 * pairs * outputs * size, with pairs in 64s, 128s or 256s. Bound as
// compact/rounded_compact.cu is; an expert's matrices have so few columns that what a thread block does before and
// after its products takes up to a third of its time.
#include "compact/forms.h"
#include "compact/rounded_strip.cuh"
#include "device/dependent.cuh"
#include "experts/grouped_compact.h"
#include "experts/pair_tile.cuh"
#include "runtime/cluster_launch.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kGatherThreads = 256;
constexpr int kGathered = 8;  // numbers that a thread copies

// to[p] = x[pairs[p] / top_k]: to [pairs, size].
template <typename T>
__global__ void __launch_bounds__(kGatherThreads) gather_kernel(const GroupedProduct<T> product, int size, T* to) {
    const int chunks = size / kGathered;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kGatherThreads + static_cast<int>(threadIdx.x);
    const int64_t pair = i / chunks;
    if (pair >= product.num_pairs) return;
    const int64_t row = product.pairs[pair] / product.top_k;
    const int64_t from = row * chunks + i % chunks;
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(product.x)[from];
}

template <typename T>
Result<const T*> gather_rows(const GroupedProduct<T>& product, int size, T* to, cudaStream_t stream) {
    const int64_t chunks = int64_t{product.num_pairs} * (size / kGathered);
    const auto blocks = static_cast<unsigned>((chunks + kGatherThreads - 1) / kGatherThreads);
    NL_TRY(launch(gather_kernel<T>, {dim3(blocks), dim3(kGatherThreads)}, stream, product, size, to));
    return static_cast<const T*>(to);
}

template <typename T, typename Traits, int kWarps, int kPairs>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    grouped_rounded_kernel(const __grid_constant__ CUtensorMap map, const int32_t* begins, int experts,
                           const CompactMatrix matrix, const CompactOutput output) {
// Only code for sm_90a may use wgmma. Builds for other GPUs have this kernel, too, and never start it.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    let_next_launch_begin();
    if (threadIdx.x == 0) tma_prefetch_map(&map);
    wait_for_launches_before();
    const PairTile tile = find_tile<kPairs>(begins, experts, static_cast<int>(blockIdx.y));
    if (tile.expert < 0) return;
    const StripShare share(matrix, static_cast<int>(blockIdx.x) * kWarps, tile.first, 1);
    RoundedStrip<T, Traits, kWarps, kPairs> strip(matrix, share);
    strip.start(matrix.tiles + tile.expert * matrix.bytes());
    strip.multiply(&map, tile.end - tile.first, output.behind_rows(tile.first));
#endif
}

template <typename T, typename Traits, int kWarps, int kPairs>
Result<void> start(const T* x, const GroupedProduct<T>& product, const CompactMatrix& matrix,
                   const CompactOutput& output, cudaStream_t stream) {
    using Strip = RoundedStrip<T, Traits, kWarps, kPairs>;
    NL_ASSIGN(const CUtensorMap map, Strip::map_of(x, product.num_pairs, matrix.size));
    const int strips = (matrix.num_tiles() + kWarps - 1) / kWarps;
    const int tiles = product.most_chosen() + product.num_pairs / kPairs;
    const dim3 grid(static_cast<unsigned>(strips), static_cast<unsigned>(tiles));
    const LaunchShape shape{grid, dim3(Strip::kThreads), static_cast<size_t>(Strip::kSharedBytes), true};
    return launch_cluster(grouped_rounded_kernel<T, Traits, kWarps, kPairs>, shape, 1, stream, map, product.begins,
                          product.experts, matrix, output);
}

}  // namespace

template <typename T>
Result<void> multiply_grouped_rounded(const GroupedProduct<T>& product, const CompactMatrix& first,
                                      const CompactOutput& output, T* gathered, cudaStream_t stream) {
    const T* x = product.x;
    if (product.pairs != nullptr) {
        NL_ASSIGN(x, gather_rows(product, first.size, gathered, stream));
    }
    const auto use = [&](auto traits) {
        using Traits = decltype(traits);
        // By the pairs that an expert has on average, if all are chosen.
        const int pairs = product.num_pairs / product.experts;
        const auto kernel = pairs <= 48    ? start<T, Traits, 16, 64>
                            : pairs <= 150 ? start<T, Traits, 16, 128>
                                           : start<T, Traits, 8, 256>;
        return kernel(x, product, first, output, stream);
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "experts' weights: expected a form that grouped_compact_supports()");
    };
    return CompactForms::with(first.layout, use, refuse);
}

template Result<void> multiply_grouped_rounded(const GroupedProduct<__half>&, const CompactMatrix&,
                                               const CompactOutput&, __half*, cudaStream_t);
template Result<void> multiply_grouped_rounded(const GroupedProduct<__nv_bfloat16>&, const CompactMatrix&,
                                               const CompactOutput&, __nv_bfloat16*, cudaStream_t);

}  // namespace nanolith::cuda
