// Tiling: the weight rows are divided into strips of up to 256. A thread block has 16 warps, each of which computes the
// outputs of one tile of 16 weight rows. The thread block goes through the strip's columns 256 at a time. All its warps
// multiply with the same 256 columns of x: cp.async copies these to shared memory, which has room for two or three such
// pieces. The weights of each warp's tile are its own: the copy engine brings their blocks (layout.h) to a ring of
// buffers in shared memory. The warp widens the codes in registers, from which wgmma takes them as its operand A; its
// operand B is x.
//
// Where there are fewer strips than multiprocessors, up to eight thread blocks, a cluster, share the columns of a
// strip. When all have their partial sums in shared memory, each of them adds up the sums of some rows of x, always in
// the order of the thread blocks, and writes those outputs.
//
// Bytes: each weight is read once from memory, x once from L2 for every strip. Flops: 2 * 32 * outputs * size. The
// first weights are fetched before the wait for the launches before this one, so that they arrive while those end. 96
// to 128 registers; forms with groups of 16 spill up to 64 bytes (sm_90a, nvcc 13.0).
//
// Bound by the issue of instructions: widening two 8-bit codes takes about five, most of them on units that accept one
// every second cycle, and forms with groups scale each group's sums besides. Gate and up of Llama-3.1-8B in e4m3 take
// 46 us with 32 rows on an H200, 57% of memory's rate. Matrices of few outputs also lose time waiting for x and for the
// other thread blocks of their clusters.
#include "compact/tiled_compact.h"

#include "compact/forms.h"
#include "compact/tiled_division.h"
#include "compact/tiled_strip.cuh"
#include "device/dependent.cuh"
#include "runtime/check.h"
#include "runtime/cluster_launch.h"

namespace nanolith::cuda {

namespace {

template <typename T, typename Traits, int kRows>
using X = TiledX<T, Traits, kRows, kTiledThreads, FirstRows>;

template <typename T, typename Traits, int kRows>
__global__ void __launch_bounds__(kTiledThreads, 1)
    tiled_compact_kernel(const CompactMatrix matrix, const TiledDivision division, const T* x, int rows,
                         const CompactOutput output) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    let_next_launch_begin();
    TiledStrip<T, Traits, X<T, Traits, kRows>, kRows> strip(matrix, division,
                                                            static_cast<int>(blockIdx.x) / division.splits);
    strip.start(matrix.tiles);
    wait_for_launches_before();
    strip.multiply({x, FirstRows{rows}, matrix.size}, rows, output);
#endif
}

template <typename T, typename Traits, int kRows>
Result<void> start(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                   const ClustersAtOnce& clusters, cudaStream_t stream) {
    const auto division = divide_for<X<T, Traits, kRows>, kRows>(matrix, 1, clusters);
    const LaunchShape shape{dim3(static_cast<unsigned>(division.thread_blocks())), dim3(kTiledThreads),
                            static_cast<size_t>(division.bytes), true};
    return launch_cluster(tiled_compact_kernel<T, Traits, kRows>, shape, division.splits, stream, matrix, division, x,
                          rows, output);
}

}  // namespace

Result<ClustersAtOnce> find_tiled_clusters() {
    // Any kernel of this file or of rounded_compact.cu will do: each thread block of theirs fills a multiprocessor.
    using Traits = CompactTraits<CodeKind::e4m3, ScaleKind::none, 32, false>;
    static_assert(kTiledSplits <= kMostClusterBlocks);
    return find_clusters(reinterpret_cast<const void*>(tiled_compact_kernel<__half, Traits, kTiledRows>), kTiledThreads,
                         kTiledShared);
}

bool tiled_compact_supports(const CompactLayout& layout, int size, const GpuFacts& gpu) {
    if (gpu.major != 9 || size % kCompactUnit != 0) return false;
    return CompactForms::with(
        layout, [](auto) { return true; }, [] { return false; });
}

template <typename T>
Result<void> tiled_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                           const ClustersAtOnce& clusters, cudaStream_t stream) {
    const auto use = [&](auto traits) {
        using Traits = decltype(traits);
        const auto kernel = rows <= 16 ? start<T, Traits, 16> : start<T, Traits, kTiledRows>;
        return kernel(x, rows, matrix, output, clusters, stream);
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "compact weights: expected a form that tiled_compact_supports()");
    };
    return CompactForms::with(matrix.layout, use, refuse);
}

template Result<void> tiled_compact(const __half*, int, const CompactMatrix&, const CompactOutput&,
                                    const ClustersAtOnce&, cudaStream_t);
template Result<void> tiled_compact(const __nv_bfloat16*, int, const CompactMatrix&, const CompactOutput&,
                                    const ClustersAtOnce&, cudaStream_t);

}  // namespace nanolith::cuda
