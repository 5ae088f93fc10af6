// Tiling: a thread block computes the outputs of a strip of weight rows for some rows of x, and goes through the
// columns 64 at a time. It is "tall", with 16 warps, 256 weight rows and up to 64 or 128 rows of x, or "wide", with 8
// warps, 128 weight rows and up to 256 rows of x. Each warp has a tile of 16 weight rows. The copy engine brings their
// blocks (layout.h) to a ring in shared memory of the warp's own. The warp widens and scales the codes of 32 columns in
// registers and rounds them to 16 bits; wgmma takes them from there as its operand A, and the same columns of x as its
// operand B, for four warps at a time. The copy engine brings x, too, [rows, 64] a stage, of which four are in shared
// memory. While the tensor cores multiply 32 columns, the warps widen the next 32.
//
// Where there are fewer thread blocks than multiprocessors, up to eight of them, a cluster, share the columns of a
// strip and add up their partial sums (cluster_sums.cuh). Thread blocks of the same strip and other rows of x follow
// each other in the grid, so that all but the first find its weights in L2.
//
// Bytes: weights once from memory and again from L2 for each further 128 or 256 rows; x once from L2 for every strip.
// Flops: 2 * rows * outputs * size, with rows in 128s or 256s. 64 columns take the tensor cores 1,024 clocks in tall
// thread blocks of 128 rows and in wide ones; widening them takes each of a scheduler's four or two warps 150 to 240
// instructions. No more than 128 registers (tall) and 202 (wide), nothing spilled (sm_90a, nvcc 13.0).
//
// Bound by the tensor cores in wide thread blocks: 600 to 740 TFLOP/s in matrices with long rows on an H200. Tall ones
// of 128 rows lose to the issue of instructions, the more the smaller the codes. What a launch takes besides its
// products, 10 to 15 us until the first and after the last, is most of its time with up to 128 rows.
#include "compact/rounded_compact.h"

#include <algorithm>

#include "compact/cluster_sums.cuh"
#include "compact/forms.h"
#include "compact/rounded_weights.cuh"
#include "compact/tiled_ring.cuh"
#include "device/cluster.cuh"
#include "device/dependent.cuh"
#include "device/dynamic_shared.cuh"
#include "device/wgmma.cuh"
#include "runtime/cluster_launch.h"
#include "runtime/tensor_map.h"

namespace nanolith::cuda {

namespace {

constexpr int kMostWarps = 16;
constexpr int kMostRing = 3;                            // stages of a warp's ring
constexpr int kShared = 227 * 1024 - 1024;              // bytes that are left once the beginning is aligned
constexpr int kColumnBytes = kCompactUnit * 2;          // of a row in a stage of x
constexpr int kLines = kCompactColumns / kCompactUnit;  // of a block of weights
constexpr int kXStages = 4;
template <int kRows>
constexpr int kStageBytes = kRows* kColumnBytes;

struct Division {
    int splits = 1;
    int strips = 1;
    int row_blocks = 1;
    int64_t clocks = 0;  // estimated
    // Of a thread block's shared memory, in bytes: the stages of x are at its beginning, then come the rings, then the
    // barriers. Partial sums are written over x and rings once the product is complete.
    int ring_stages = 0;
    int barriers = 0;
    int bytes = 0;
};

// The thread block's place: which share of which strip, and for which rows of x.
struct Place {
    int tile;  // the calling warp's
    int first_tile;
    int first_row;
    int first_block;  // of the columns, [first_block, end_block)
    int end_block;
    int steps;  // of 64 columns
    __device__ Place(const CompactMatrix& matrix, const Division& division, int warps, int rows_of_block) {
        const int index = static_cast<int>(blockIdx.x) / division.splits;
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        first_tile = index / division.row_blocks * warps;
        // A warp without a tile multiplies the last one; those sums go nowhere.
        tile = min(first_tile + warp, matrix.num_tiles() - 1);
        first_row = index % division.row_blocks * rows_of_block;
        const int blocks = compact_blocks_of(matrix.size);
        first_block = blocks * cluster_rank() / division.splits;
        end_block = blocks * (cluster_rank() + 1) / division.splits;
        steps = (min(end_block * kCompactColumns, matrix.size) - first_block * kCompactColumns) / kCompactUnit;
    }
};

struct Barriers {
    uint64_t full[kXStages];   // a stage of x is there
    uint64_t empty[kXStages];  // all warps have multiplied it
    uint64_t rings[kMostWarps * kMostRing];
};

// x on its way through the stages. Used by one thread.
template <int kRows>
class Loads {
  public:
    __device__ Loads(const CUtensorMap* map, const Place& place, std::byte* stages, Barriers& barriers)
        : map_(map), place_(place), stages_(stages), barriers_(barriers) {}

    // Has the copy engine bring the next 64 columns, when the stage is free that they belong to.
    __device__ void next() {
        if (step_ == place_.steps) return;
        barrier_wait(&barriers_.empty[position_.stage], position_.parity ^ 1U, "an empty stage of x");
        uint64_t* const full = &barriers_.full[position_.stage];
        barrier_arrive_expect(full, kStageBytes<kRows>);
        tma_load_4d(map_, stages_ + position_.stage * kStageBytes<kRows>, full,
                    place_.first_block * kCompactColumns + step_ * kCompactUnit, place_.first_row);
        ++step_;
        position_.advance();
    }

  private:
    const CUtensorMap* const map_;
    const Place& place_;
    std::byte* const stages_;
    Barriers& barriers_;
    RingPosition<kXStages> position_;
    int step_ = 0;
};

// Starts to add the product of 32 columns to `sums`, and returns when the one before is complete.
template <typename T, int kRows>
__device__ void multiply_pair(uint32_t (&a)[2][4], uint64_t x, Fragment<kRows>& sums) {
    wgmma_hold(sums);
    wgmma_hold(a[0]);
    wgmma_hold(a[1]);
    wgmma_fence();
    Wgmma<T, kRows>::template multiply_add<false>(sums, a[0], x, true);
    Wgmma<T, kRows>::template multiply_add<false>(sums, a[1], x + 2, true);
    wgmma_commit();
    wgmma_wait<1>();
}

// Adds the warp's share of a strip's columns to `sums`: a warpgroup's sums of 64 weight rows and kRows rows of x.
template <typename T, typename Traits, int kRows>
__device__ void multiply_strip(const CUtensorMap* map, const Place& place, TiledRing<Traits>& ring, int zero,
                               std::byte* stages, Barriers& barriers, Fragment<kRows>& sums) {
    static_assert(kXStages == kLines, "the lines of a block of weights meet x in the same stages");
    Loads<kRows> loads(map, place, stages, barriers);
    if (threadIdx.x == 0) {
        for (int i = 0; i < kXStages - 1; ++i) loads.next();
    }
    __syncwarp();
    const uint64_t x = wgmma_operand(shared_address(stages), 8 * kColumnBytes);
    RoundedBlock<T, Traits> weights(zero);
    uint32_t first[2][4];  // of a line's two halves
    uint32_t second[2][4];
    ring.wait();
    weights.begin(ring.block());
    weights.round(0, first);
    uint32_t parity = 0;
    for (int left = place.steps; left > 0; left -= kLines, parity ^= 1U) {
#pragma unroll
        for (int line = 0; line < kLines; ++line) {
            if (line >= left) break;
            const uint64_t x_line = x + line * (kStageBytes<kRows> / 16);
            barrier_wait(&barriers.full[line], parity, "a stage of x");
            multiply_pair<T>(first, x_line, sums);
            // The line before has been multiplied: of the first line ever there is none, and its stage is free.
            const bool any_before = line > 0 || left < place.steps;
            if (any_before && threadIdx.x % kWarp == 0) barrier_arrive(&barriers.empty[(line + kLines - 1) % kLines]);
            weights.round(2 * line + 1, second);
            multiply_pair<T>(second, x_line + 4, sums);
            // Into the stage of the line before, which the other warps have probably multiplied, too.
            if (threadIdx.x == 0) loads.next();
            __syncwarp();
            if (line + 1 < kLines) {
                weights.round(2 * line + 2, first);
            } else if (left > kLines) {
                ring.advance();
                ring.wait();
                weights.begin(ring.block());
                weights.round(0, first);
            }
        }
    }
    wgmma_wait<0>();
    wgmma_hold(sums);
}

template <typename T, typename Traits, int kWarps, int kRows>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    rounded_compact_kernel(const __grid_constant__ CUtensorMap map, const CompactMatrix matrix, const Division division,
                           int rows, const CompactOutput output) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    constexpr int kBlock = Traits::layout().block_bytes(kCompactColumns);
    let_next_launch_begin();
    std::byte* const shared = dynamic_shared_1024();
    Barriers& barriers = *reinterpret_cast<Barriers*>(shared + division.barriers);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const Place place(matrix, division, kWarps, kRows);
    if (threadIdx.x == 0) {
        tma_prefetch_map(&map);
        for (int i = 0; i < kXStages; ++i) {
            barrier_init(&barriers.full[i], 1);
            barrier_init(&barriers.empty[i], kWarps);
        }
        fence_barrier_init();
    }
    __syncthreads();
    auto* const sums = reinterpret_cast<float*>(shared);
    using Sums = ClusterSums<kWarps, kWarps * kWarp>;
    const std::byte* const tile = matrix.tiles + place.tile * Traits::layout().tile_bytes(matrix.size);
    TiledRing<Traits> ring(matrix, shared + kXStages * kStageBytes<kRows> + warp * division.ring_stages * kBlock,
                           barriers.rings + warp * kMostRing, division.ring_stages);
    ring.start(tile, place.first_block, place.end_block);
    wait_for_launches_before();
    Fragment<kRows> products;
    products.for_each([](float& product) { product = 0; });
    multiply_strip<T, Traits>(&map, place, ring, matrix.layout.zero, shared, barriers, products);
    if constexpr (Traits::kScales == ScaleKind::none) {
        products.scale_rows(RowFactors<T, Traits>(tile, static_cast<int>(threadIdx.x) % kWarp / 4).of);
    }
    __syncthreads();  // the sums overwrite x and rings, which all have read now
    Sums::leave(products, sums);
    Sums::template put<T>(sums, {place.first_tile, kWarps, division.splits}, min(rows - place.first_row, kRows), matrix,
                          output.behind_rows(place.first_row));
#endif
}

// Divides the product among thread blocks of kRows rows of x so that it takes the fewest clocks.
template <typename Traits, int kWarps, int kRows>
Division divide(const CompactMatrix& matrix, int rows, const TiledClusters& clusters) {
    // As measured on an H200: of 64 columns,
    constexpr int64_t kOfStep = kWarps == 8                          ? 1500
                                : Traits::kCodes == CodeKind::bits4  ? 1900
                                : Traits::kScales == ScaleKind::none ? 1500
                                                                     : 1700;
    constexpr int64_t kOfBlock = 6000;    // until the first product, and for the outputs,
    constexpr int64_t kOfCluster = 6000;  // and until a cluster has added up its sums.
    constexpr int kBlock = Traits::layout().block_bytes(kCompactColumns);
    const auto divide_up = [](int n, int by) { return (n + by - 1) / by; };
    Division best;
    best.strips = divide_up(matrix.num_tiles(), kWarps);
    best.row_blocks = divide_up(rows, kRows);
    best.clocks = INT64_MAX;
    const int num_blocks = compact_blocks_of(matrix.size);
    for (int splits = 1; splits <= std::min(kTiledSplits, num_blocks); ++splits) {
        const int at_once = clusters.most[static_cast<size_t>(splits)];
        if (at_once == 0) continue;
        const int64_t waves = divide_up(best.strips * best.row_blocks, at_once);
        const int64_t steps = divide_up(num_blocks, splits) * kLines;
        const int64_t clocks = waves * (steps * kOfStep + kOfBlock + (splits > 1 ? kOfCluster : 0));
        if (clocks >= best.clocks) continue;
        best.clocks = clocks;
        best.splits = splits;
    }
    constexpr int kXBytes = kXStages * kStageBytes<kRows>;
    best.ring_stages = std::min((kShared - kXBytes) / (kWarps * (kBlock + 8)), kMostRing);
    const int rings_end = kXBytes + kWarps * best.ring_stages * kBlock;
    best.barriers = std::max(rings_end, kRows * sums_row(kWarps) * static_cast<int>(sizeof(float)));
    best.bytes = best.barriers + static_cast<int>(sizeof(Barriers)) + 1024;
    return best;
}

template <typename T>
Result<CUtensorMap> map_of_x(const T* x, int rows, int size, int rows_of_block) {
    TensorBox box;
    box.type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const uint64_t sizes[4] = {static_cast<uint64_t>(size), 1, 1, static_cast<uint64_t>(rows)};
    const uint32_t extents[4] = {kCompactUnit, 1, 1, static_cast<uint32_t>(rows_of_block)};
    std::ranges::copy(sizes, box.sizes);
    std::ranges::copy(extents, box.extents);
    for (uint64_t& stride : box.strides) stride = static_cast<uint64_t>(size) * sizeof(T);
    return make_tensor_map(x, box, "activations of compact weights");
}

template <typename T, typename Traits, int kWarps, int kRows>
Result<void> start(const T* x, int rows, const CompactMatrix& matrix, const Division& division,
                   const CompactOutput& output, cudaStream_t stream) {
    NL_ASSIGN(const CUtensorMap map, map_of_x(x, rows, matrix.size, kRows));
    const auto blocks = static_cast<unsigned>(division.strips * division.row_blocks * division.splits);
    const LaunchShape shape{dim3(blocks), dim3(kWarps * kWarp), static_cast<size_t>(division.bytes), true};
    return launch_cluster(rounded_compact_kernel<T, Traits, kWarps, kRows>, shape, division.splits, stream, map, matrix,
                          division, rows, output);
}

}  // namespace

template <typename T>
Result<void> rounded_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                             const TiledClusters& clusters, cudaStream_t stream) {
    const auto use = [&](auto traits) {
        using Traits = decltype(traits);
        if (rows <= 64) {
            return start<T, Traits, 16, 64>(x, rows, matrix, divide<Traits, 16, 64>(matrix, rows, clusters), output,
                                            stream);
        }
        const Division tall = divide<Traits, 16, 128>(matrix, rows, clusters);
        const Division wide = divide<Traits, 8, 256>(matrix, rows, clusters);
        if (tall.clocks < wide.clocks) return start<T, Traits, 16, 128>(x, rows, matrix, tall, output, stream);
        return start<T, Traits, 8, 256>(x, rows, matrix, wide, output, stream);
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "compact weights: expected a form that tiled_compact_supports()");
    };
    return CompactForms::with(matrix.layout, use, refuse);
}

template Result<void> rounded_compact(const __half*, int, const CompactMatrix&, const CompactOutput&,
                                      const TiledClusters&, cudaStream_t);
template Result<void> rounded_compact(const __nv_bfloat16*, int, const CompactMatrix&, const CompactOutput&,
                                      const TiledClusters&, cudaStream_t);

}  // namespace nanolith::cuda
