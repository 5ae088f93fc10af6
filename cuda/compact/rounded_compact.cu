// Tiling: a thread block computes the outputs of a strip of weight rows for some rows of x, and goes through the
// columns 64 at a time. It is "tall", with 16 warps, 256 weight rows and up to 16, 32, 64 or 128 rows of x, or "wide",
// with 8 warps, 128 weight rows and up to 256 rows of x. Each warp has a tile of 16 weight rows. The copy engine brings
// their blocks (layout.h) to a ring in shared memory of the warp's own. The warp widens and scales the codes of 32
// columns in registers and rounds them to 16 bits; wgmma takes them from there as its operand A, and the same columns
// of x as its operand B, for four warps at a time. The copy engine also brings x to
// four stages in shared memory. A stage has 256 columns of x where the kernel takes up to 32 rows, 128 columns with 64
// rows, and 64 columns with more. While the tensor cores multiply 32 columns,
// the warps widen the next 32.
//
// Where there are fewer thread blocks than multiprocessors, up to eight of them, a cluster, share the columns of a
// strip and add up their partial sums (cluster_sums.cuh). Thread blocks of the same strip and other rows of x follow
// each other in the grid, so that all but the first find its weights in L2.
//
// Bytes: weights once from memory and again from L2 for each further 128 or 256 rows; x once from L2 for every strip.
// Flops: 2 * rows * outputs * size, rows being rounded up to 16, 32 or 64, or to a multiple of 128 or 256. 64 columns
// take the tensor cores 1,024 clocks in tall thread blocks of 128 rows and in wide ones; widening them takes each of a
// scheduler's four or two warps 150 to 240 instructions. No more than 128 registers (tall) and 208 (wide), nothing
// spilled (sm_90a, nvcc 13.0).
//
// Bound by the tensor cores in wide thread blocks: 600 to 740 TFLOP/s in matrices with long rows on an H200. Tall ones
// of 128 rows lose to the issue of instructions, the more the smaller the codes. With up to 128 rows most of the
// time is what a launch takes besides its products, 10 to 15 us before the first and after the last. The four products
// of one layer of Llama-3.1-8B with e4m3 weights take 78 us with 16 rows and 102 us with 64; reading the weights alone
// takes 48 us.
#include "compact/rounded_compact.h"

#include "compact/forms.h"
#include "compact/rounded_strip.cuh"
#include "device/dependent.cuh"
#include "runtime/cluster_launch.h"

namespace nanolith::cuda {

namespace {

struct Division {
    int splits = 1;
    int strips = 1;
    int row_blocks = 1;
    int64_t clocks = 0;  // estimated
};

template <typename T, typename Traits, int kWarps, int kRows>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    rounded_compact_kernel(const __grid_constant__ CUtensorMap map, const CompactMatrix matrix, const Division division,
                           int rows, const CompactOutput output) {
// Only code for sm_90a may use wgmma. Builds for other GPUs have this kernel, too, and never start it.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    let_next_launch_begin();
    if (threadIdx.x == 0) tma_prefetch_map(&map);
    const int index = static_cast<int>(blockIdx.x) / division.splits;
    const StripShare share(matrix, index / division.row_blocks * kWarps, index % division.row_blocks * kRows,
                           division.splits);
    RoundedStrip<T, Traits, kWarps, kRows> strip(matrix, share);
    strip.start(matrix.tiles);
    wait_for_launches_before();
    strip.multiply(&map, min(rows - share.first_row, kRows), output.behind_rows(share.first_row));
#endif
}

// Divides the product among thread blocks of kRows rows of x so that it takes the fewest clocks.
template <typename Traits, int kWarps, int kRows>
Division divide(const CompactMatrix& matrix, int rows, const ClustersAtOnce& clusters) {
    // As measured on an H200: of 64 columns,
    constexpr int64_t kOfCodes = Traits::kCodes == CodeKind::bits4    ? 1000
                                 : Traits::kScales == ScaleKind::none ? 650
                                                                      : 800;
    constexpr int64_t kOfStep = kWarps == 8 ? 1500 : kOfCodes + 6 * kRows;
    constexpr int64_t kOfBlock = 6000;    // until the first product, and for the outputs,
    constexpr int64_t kOfCluster = 6000;  // and until a cluster has added up its sums.
    constexpr int kLines = kCompactColumns / kCompactUnit;
    const auto divide_up = [](int n, int by) { return (n + by - 1) / by; };
    Division best;
    best.strips = divide_up(matrix.num_tiles(), kWarps);
    best.row_blocks = divide_up(rows, kRows);
    best.clocks = INT64_MAX;
    const int num_blocks = compact_blocks_of(matrix.size);
    for (int splits = 1; splits <= std::min(kCompactSplits, num_blocks); ++splits) {
        const int at_once = clusters.most[static_cast<size_t>(splits)];
        if (at_once == 0) continue;
        const int64_t waves = divide_up(best.strips * best.row_blocks, at_once);
        const int64_t steps = divide_up(num_blocks, splits) * kLines;
        const int64_t clocks = waves * (steps * kOfStep + kOfBlock + (splits > 1 ? kOfCluster : 0));
        if (clocks >= best.clocks) continue;
        best.clocks = clocks;
        best.splits = splits;
    }
    return best;
}

template <typename T, typename Traits, int kWarps, int kRows>
Result<void> start(const T* x, int rows, const CompactMatrix& matrix, const Division& division,
                   const CompactOutput& output, cudaStream_t stream) {
    using Strip = RoundedStrip<T, Traits, kWarps, kRows>;
    NL_ASSIGN(const CUtensorMap map, Strip::map_of(x, rows, matrix.size));
    const auto blocks = static_cast<unsigned>(division.strips * division.row_blocks * division.splits);
    const LaunchShape shape{dim3(blocks), dim3(Strip::kThreads), static_cast<size_t>(Strip::kSharedBytes), true};
    return launch_cluster(rounded_compact_kernel<T, Traits, kWarps, kRows>, shape, division.splits, stream, map, matrix,
                          division, rows, output);
}

}  // namespace

Result<ClustersAtOnce> find_rounded_clusters() {
    // Any kernel of this file will do.
    using Traits = CompactTraits<CodeKind::e4m3, ScaleKind::none, 32, false>;
    using Strip = RoundedStrip<__half, Traits, 16, 64>;
    static_assert(kCompactSplits <= kMostClusterBlocks);
    return find_clusters(reinterpret_cast<const void*>(rounded_compact_kernel<__half, Traits, 16, 64>), Strip::kThreads,
                         Strip::kSharedBytes);
}

bool rounded_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu) {
    if (gpu.major != 9 || size % kCompactUnit != 0) return false;
    return CompactForms::with(
        layout, [](auto) { return true; }, [] { return false; });
}

template <typename T>
Result<void> rounded_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                             const ClustersAtOnce& clusters, cudaStream_t stream) {
    const auto use = [&](auto traits) {
        using Traits = decltype(traits);
        const auto start_tall = [&]<int kRows>() {
            return start<T, Traits, 16, kRows>(x, rows, matrix, divide<Traits, 16, kRows>(matrix, rows, clusters),
                                               output, stream);
        };
        if (rows <= 16) return start_tall.template operator()<16>();
        if (rows <= 32) return start_tall.template operator()<32>();
        if (rows <= 64) return start_tall.template operator()<64>();
        const Division tall = divide<Traits, 16, 128>(matrix, rows, clusters);
        const Division wide = divide<Traits, 8, 256>(matrix, rows, clusters);
        if (tall.clocks < wide.clocks) return start<T, Traits, 16, 128>(x, rows, matrix, tall, output, stream);
        return start<T, Traits, 8, 256>(x, rows, matrix, wide, output, stream);
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "compact weights: expected a form that rounded_compact_supports()");
    };
    return CompactForms::with(matrix.layout, use, refuse);
}

template Result<void> rounded_compact(const __half*, int, const CompactMatrix&, const CompactOutput&,
                                      const ClustersAtOnce&, cudaStream_t);
template Result<void> rounded_compact(const __nv_bfloat16*, int, const CompactMatrix&, const CompactOutput&,
                                      const ClustersAtOnce&, cudaStream_t);

}  // namespace nanolith::cuda
