// Tiling: the weight rows are divided into strips of up to 256. A thread block has 16 warps, each of which computes the
// outputs of one tile of 16 weight rows. The thread block goes through the strip's columns 256 at a time. All its warps
// multiply with the same 256 columns of x: cp.async copies these to shared memory, which has room for two or three such
// pieces. The weights of each warp's tile are its own: the copy engine brings their blocks (layout.h) to a ring of
// buffers in shared memory. The warp widens the codes in registers, from which wgmma takes them as its operand A; its
// operand B is x.
//
// Where there are fewer strips than multiprocessors, up to eight thread blocks, a cluster, share the columns of a
// strip. When all have their partial sums in shared memory, each of them adds up the sums of some of the strip's tiles,
// always in the order of the thread blocks, and writes those outputs.
//
// Bytes: each weight is read once from memory, x once from L2 for every strip. Flops: 2 * 64 * outputs * size. The
// first weights are fetched before the wait for the launches before this one, so that they arrive while those end. 96
// to 128 registers; forms with groups of 16 spill up to 64 bytes (sm_90a, nvcc 13.0).
//
// Bound by the issue of instructions: widening two 8-bit codes takes about five, most of them on units that accept one
// every second cycle, and forms with groups scale each group's sums besides. Gate and up of Llama-3.1-8B in e4m3 reach
// 65% of memory's bandwidth with 64 rows on an H100. Matrices of few outputs also lose time waiting for x and for the
// other thread blocks of their clusters.
#include "compact/tiled_compact.h"

#include <algorithm>
#include <type_traits>

#include "compact/forms.h"
#include "compact/output.cuh"
#include "compact/tiled_product.cuh"
#include "compact/tiled_x.cuh"
#include "device/cluster.cuh"
#include "device/dependent.cuh"
#include "device/dynamic_shared.cuh"
#include "device/mbarrier.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"
#include "runtime/check.h"
#include "runtime/cluster_launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 16;  // each has a tile
constexpr int kThreads = kWarps * kWarp;
constexpr int kGroupWarps = 4;     // of a warpgroup
constexpr int kXStages = 3;        // of x in shared memory,
constexpr int kFewestXStages = 2;  // or so many where three would leave a ring fewer than two blocks
constexpr int kMostRing = 4;       // stages of a warp's ring
constexpr int kAlignment = 1024;   // of x's stages, for wgmma's swizzle
constexpr int kSharedOfBlock = 227 * 1024 - kAlignment;  // bytes that are left once the beginning is aligned

// The partial sums of a strip in shared memory are [rows of x][kSumsRow] float32: four more than the strip's 256 weight
// rows, so that the lanes of a warp, which write eight weight rows of four rows of x at once, use different banks.
constexpr int kSumsRow = kWarps * kCompactTile + 4;

// ---- How a product is divided -------------------------------------------------------------------------------

struct TiledDivision {
    int tiles = kWarps;  // of a strip
    int splits = 1;      // thread blocks that share a strip's columns: the size of a cluster
    int strips = 1;
    int x_stages = kFewestXStages;
    int stages = 0;  // blocks of weights that each warp's ring holds
    // Where a thread block's shared memory has the other parts, in bytes; x's stages are at its beginning.
    int means = 0;
    int rings = 0;
    int barriers = 0;
    int bytes = 0;  // of shared memory in all
};

// Chooses tiles, splits and strips so that the thread block with most work has as little as possible, measured in bytes
// that it loads. `x_bytes`: of a stage of x.
void divide(const CompactMatrix& matrix, int x_bytes, const TiledClusters& clusters, TiledDivision& division) {
    // The time in which a cluster adds up its partial sums, as the bytes of weights that a thread block could load in
    // it.
    constexpr int64_t kClusterCost = 40 * 1024;
    const auto divide_up = [](int n, int by) { return (n + by - 1) / by; };
    const int num_tiles = matrix.num_tiles();
    const int num_blocks = compact_blocks_of(matrix.size);
    int64_t least = INT64_MAX;
    for (int splits = 1; splits <= std::min(kTiledSplits, num_blocks); ++splits) {
        const int at_once = clusters.most[static_cast<size_t>(splits)];
        if (at_once == 0) continue;
        // The fewest waves of clusters, and with that many waves the fewest tiles in a strip.
        const int waves = divide_up(divide_up(num_tiles, kWarps), at_once);
        const int tiles = std::max(divide_up(num_tiles, waves * at_once), kGroupWarps);
        // x comes from L2, about twice as fast as weights come from memory.
        const int64_t step = tiles * matrix.layout.block_bytes(kCompactColumns) + x_bytes / 2;
        const int64_t cost = waves * divide_up(num_blocks, splits) * step + (splits > 1 ? kClusterCost : 0);
        if (cost >= least) continue;
        least = cost;
        division.tiles = tiles;
        division.splits = splits;
        division.strips = divide_up(num_tiles, tiles);
    }
}

template <typename X, int kRows>
TiledDivision divide_for(const CompactMatrix& matrix, const TiledClusters& clusters) {
    TiledDivision division;
    divide(matrix, X::kStageBytes, clusters, division);
    const int stage = matrix.layout.block_bytes(kCompactColumns);
    const auto place = [&](int x_stages) {
        division.x_stages = x_stages;
        division.means = x_stages * X::kStageBytes;
        division.rings = division.means + kRows * X::kMeansRowBytes;
        const int fit = (kSharedOfBlock - division.rings) / (division.tiles * (stage + 8));
        division.stages = std::min(fit, kMostRing);
    };
    place(kXStages);
    if (division.stages < 2) place(kFewestXStages);
    division.barriers = division.rings + division.tiles * division.stages * stage;
    const int sums = kRows * kSumsRow * static_cast<int>(sizeof(float));
    division.bytes = std::max(division.barriers + division.tiles * division.stages * 8, sums) + kAlignment;
    return division;
}

// ---- The kernel ---------------------------------------------------------------------------------------------

// A warp's ring in shared memory, through which the blocks of one tile pass in order. All lanes must make every call.
template <typename Traits>
class TiledRing {
  public:
    // Starts to fetch the first of the blocks [first, end) of `tile`. A warp that has no tile gives no stages and no
    // blocks.
    __device__ TiledRing(const CompactMatrix& matrix, std::byte* blocks, uint64_t* filled, int stages, int tile,
                         int first, int end)
        : from_(matrix.tiles + tile * Traits::layout().tile_bytes(matrix.size)),
          size_(matrix.size),
          blocks_(blocks),
          filled_(filled),
          stages_(stages),
          fetched_(first),
          end_(end) {
        if (lane() == 0) {
            for (int i = 0; i < stages; ++i) barrier_init(filled + i, 1);
            fence_barrier_init();
        }
        __syncwarp();
        for (int i = 0; i < stages; ++i) fetch(i);
    }

    [[nodiscard]] __device__ const std::byte* block() const { return blocks_ + stage_ * kStage; }
    __device__ void wait() const { barrier_wait(filled_ + stage_, parity_, "compact weights"); }
    // Goes to the next block of the ring. The buffer of the block before is free then, and a further block of the tile
    // is fetched into it.
    __device__ void advance() {
        __syncwarp();  // all lanes have read the block
        fetch(stage_);
        if (++stage_ == stages_) {
            stage_ = 0;
            parity_ ^= 1U;
        }
    }

  private:
    static constexpr int kStage = Traits::layout().block_bytes(kCompactColumns);
    __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

    __device__ void fetch(int stage) {
        if (fetched_ >= end_) return;
        if (lane() == 0) {
            const int columns = min(kCompactColumns, size_ - fetched_ * kCompactColumns);
            const auto bytes = static_cast<uint32_t>(Traits::layout().block_bytes(columns));
            barrier_arrive_expect(filled_ + stage, bytes);
            bulk_load(blocks_ + stage * kStage, from_ + static_cast<int64_t>(fetched_) * kStage, bytes,
                      filled_ + stage);
        }
        ++fetched_;
    }

    const std::byte* from_;
    const int size_;
    std::byte* blocks_;
    uint64_t* filled_;
    const int stages_;
    int fetched_;
    const int end_;
    int stage_ = 0;
    uint32_t parity_ = 0;
};

// Writes the warp's partial sums to its tile's place in [rows of x][kSumsRow] float32.
template <int kRows>
__device__ void leave_sums(const Fragment<kRows>& sums, float* memory) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int octet = 0; octet < kRows / 8; ++octet) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = 8 * octet + Fragment<kRows>::first_column(lane) + i % 2;
            memory[row * kSumsRow + warp * kCompactTile + lane / 4 + i / 2 * 8] = sums.octets[octet][i];
        }
    }
}

// Adds up four adjacent partial sums over the cluster's `splits` thread blocks. `at`: where this one has its own; the
// others have theirs at the same place of their shared memory. All are loaded before the first is added, so that the
// loads overlap.
__device__ void add_up(const float* at, int splits, float (&sums)[4]) {
    float4 parts[kTiledSplits];
#pragma unroll
    for (int i = 0; i < kTiledSplits; ++i) {
        if (i < splits) parts[i] = *reinterpret_cast<const float4*>(in_block(at, i));
    }
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
#pragma unroll
    for (int i = 0; i < kTiledSplits; ++i) {
        if (i >= splits) break;
        sums[0] += parts[i].x;
        sums[1] += parts[i].y;
        sums[2] += parts[i].z;
        sums[3] += parts[i].w;
    }
}

// Adds up the partial sums of this thread block's share of the strip's tiles and writes those outputs. `memory`: its
// own partial sums; those of the cluster's other thread blocks must be complete too. `first`: the strip's first tile.
template <typename T>
__device__ void put_sums(const float* memory, int first, int rows, const CompactMatrix& matrix,
                         const TiledDivision& division, const CompactOutput& output) {
    const int rank = cluster_rank();
    const int begin = division.tiles * rank / division.splits;
    const int end = min(division.tiles * (rank + 1) / division.splits, matrix.num_tiles() - first);
    const int quads = matrix.rows_of_tile() / 4;
    const int columns = (end - begin) * quads;
    for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += kThreads) {
        const int row = i / columns;
        const int tile = begin + i % columns / quads;
        const int r = i % columns % quads * 4;
        const float* const at = memory + row * kSumsRow + tile * kCompactTile + r;
        float sums[4];
        float others[4] = {};
        add_up(at, division.splits, sums);
        if (matrix.gated) add_up(at + kCompactTile / 2, division.splits, others);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            put_output<T>(output, matrix, row, first + tile, r + j, sums[j], others[j]);
        }
    }
}

template <typename T, typename Traits, int kRows>
__global__ void __launch_bounds__(kThreads, 1)
    tiled_compact_kernel(const CompactMatrix matrix, const TiledDivision division, const T* x, int rows,
                         const CompactOutput output) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    __trap();
#else
    using X = TiledX<T, Traits, kRows, kThreads>;
    let_next_launch_begin();
    const int split = cluster_rank();
    const int first_tile = static_cast<int>(blockIdx.x) / division.splits * division.tiles;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int tiles = min(division.tiles, matrix.num_tiles() - first_tile);
    const int num_blocks = compact_blocks_of(matrix.size);
    const int first = num_blocks * split / division.splits;
    const int end = num_blocks * (split + 1) / division.splits;

    std::byte* const shared = dynamic_shared_1024();
    std::byte* const means = shared + division.means;
    // A warp without a tile takes part in its warpgroup's products with the last ring's codes; its sums go nowhere.
    const int slot = min(warp, division.tiles - 1);
    TiledRing<Traits> ring(
        matrix, shared + division.rings + slot * division.stages * Traits::layout().block_bytes(kCompactColumns),
        reinterpret_cast<uint64_t*>(shared + division.barriers) + slot * division.stages,
        warp < division.tiles ? division.stages : 0, first_tile + warp, first, warp < tiles ? end : first);
    wait_for_launches_before();

    const X source(x, rows, matrix.size);
    const int ahead = division.x_stages - 1;
    for (int i = 0; i < ahead; ++i) {
        if (first + i < end) source.fetch(first + i, shared + i * X::kStageBytes);
        commit_copies();
    }
    Fragment<kRows> sums = {};
    const uint32_t power = in_register(kPower<T, Traits::kCodes>);
    int at = 0;  // the stage that has the block's columns of x
    for (int block = first; block < end; ++block) {
        std::byte* const stage = shared + at * X::kStageBytes;
        if (ahead == 1) {
            wait_for_copies<0>();
        } else {
            wait_for_copies<kXStages - 2>();
        }
        fence_async_proxy();
        __syncthreads();  // x is there for all warps, and all have done with the columns before
        if (block + ahead < end) source.fetch(block + ahead, shared + (at == 0 ? ahead : at - 1) * X::kStageBytes);
        commit_copies();
        if (++at == division.x_stages) at = 0;
        const int lines = min(kCompactColumns, matrix.size - block * kCompactColumns) / kCompactUnit;
        if constexpr (Traits::kMeans) {
            X::write_means(stage, lines, means);
            __syncthreads();
        }
        if (warp / kGroupWarps * kGroupWarps >= tiles) continue;
        if (warp < tiles) ring.wait();
        const TiledProduct<T, Traits, X, kRows> product({ring.block(), lines, power, matrix.layout.zero});
        product.add(stage, means + static_cast<int>(threadIdx.x) % kWarp / 4 * X::kMeansRowBytes, sums);
        if (warp < tiles) ring.advance();
    }

    __syncthreads();  // the partial sums overwrite x and rings, which all have read now
    auto* const memory = reinterpret_cast<float*>(shared);
    leave_sums(sums, memory);
    __syncwarp();
    cluster_arrive();
    cluster_wait();
    put_sums<T>(memory, first_tile, rows, matrix, division, output);
    cluster_arrive_after_reading();  // a thread block must not end while others read its sums
    cluster_wait();
#endif
}

template <typename T, typename Traits, int kRows>
Result<void> start(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                   const TiledClusters& clusters, cudaStream_t stream) {
    const auto division = divide_for<TiledX<T, Traits, kRows, kThreads>, kRows>(matrix, clusters);
    const LaunchShape shape{dim3(static_cast<unsigned>(division.strips * division.splits)), dim3(kThreads),
                            static_cast<size_t>(division.bytes), true};
    return launch_cluster(tiled_compact_kernel<T, Traits, kRows>, shape, division.splits, stream, matrix, division, x,
                          rows, output);
}

}  // namespace

Result<TiledClusters> find_tiled_clusters() {
    // Any kernel of this file will do: a thread block of any of them fills a multiprocessor.
    using Traits = CompactTraits<CodeKind::e4m3, ScaleKind::none, 32, false>;
    const void* const kernel = reinterpret_cast<const void*>(tiled_compact_kernel<__half, Traits, kTiledRows>);
    NL_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedOfBlock));
    TiledClusters clusters;
    for (int blocks = 1; blocks <= kTiledSplits; ++blocks) {
        cudaLaunchAttribute size{};
        size.id = cudaLaunchAttributeClusterDimension;
        size.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(static_cast<unsigned>(blocks));
        config.blockDim = dim3(kThreads);
        config.dynamicSmemBytes = kSharedOfBlock;
        config.attrs = &size;
        config.numAttrs = 1;
        NL_CUDA_TRY(cudaOccupancyMaxActiveClusters(&clusters.most[static_cast<size_t>(blocks)], kernel, &config));
    }
    return clusters;
}

bool tiled_compact_supports(const CompactLayout& layout, int rows, int size, const GpuFacts& gpu) {
    if (gpu.major != 9 || rows > kMostTiledRows || size % kCompactUnit != 0) return false;
    return CompactForms::with(
        layout, [](auto) { return true; }, [] { return false; });
}

template <typename T>
Result<void> tiled_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                           const TiledClusters& clusters, cudaStream_t stream) {
    if (rows > kTiledRows) {
        NL_TRY(tiled_compact(x, kTiledRows, matrix, output, clusters, stream));
        return tiled_compact(x + int64_t{kTiledRows} * matrix.size, rows - kTiledRows, matrix,
                             output.behind_rows(kTiledRows), clusters, stream);
    }
    const auto use = [&](auto traits) {
        using Traits = decltype(traits);
        const auto kernel = rows <= 16   ? start<T, Traits, 16>
                            : rows <= 32 ? start<T, Traits, 32>
                                         : start<T, Traits, 64>;
        return kernel(x, rows, matrix, output, clusters, stream);
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "compact weights: expected a form that tiled_compact_supports()");
    };
    return CompactForms::with(matrix.layout, use, refuse);
}

template Result<void> tiled_compact(const __half*, int, const CompactMatrix&, const CompactOutput&,
                                    const TiledClusters&, cudaStream_t);
template Result<void> tiled_compact(const __nv_bfloat16*, int, const CompactMatrix&, const CompactOutput&,
                                    const TiledClusters&, cudaStream_t);

}  // namespace nanolith::cuda
