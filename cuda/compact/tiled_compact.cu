// Tiling: a block of eight warps has a strip of 256 weight rows (16 tiles, two a warp) and a share of their columns,
// which it goes through 256 at a time: x comes to shared memory with cp.async, two stages for all warps, and a warp's
// blocks of weights with the copy engine to a ring of its own. Their codes are widened once, as the operands A of mma
// whose operands B are 16, 32 or 64 rows of x. Columns are shared out so that there are about as many blocks as
// multiprocessors: each leaves its sums in device memory, and the last one of a strip adds them up, always in the same
// order.
//
// Bytes: those of the matrix, each read once; x from L2 for every strip; the sums 4 bytes an output, row and share to
// write and to read. Flops: 2 * 64 * outputs * size. Two warps a scheduler do not hide how long mma and the scaling of
// its sums take: on an H100 64 rows come at a quarter of memory's rate.
#include "compact/tiled_compact.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "compact/forms.h"
#include "compact/output.cuh"
#include "compact/product.cuh"
#include "device/async_copy.cuh"
#include "device/dynamic_shared.cuh"
#include "device/mbarrier.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"
#include "runtime/check.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTilesOfWarp = 2;
constexpr int kTilesOfStrip = kWarps * kTilesOfWarp;
constexpr int kXStages = 2;
constexpr int kMostRing = 4;  // stages of a warp's ring
// Bytes from one row of x to the next in shared memory: lanes of two rows that read 64 bytes each find other banks.
constexpr int kXRowBytes = kCompactColumns * 2 + 64;
constexpr int kMostSplits = 16;
constexpr int kSharedOfBlock = 227 * 1024 - 1024;  // without static arrays

template <typename Traits>
constexpr int kTiledMeans = Traits::kMeans ? kMeanBytes<Traits> + 16 : 0;

// How a product is divided, and where a block's shared memory has what.
struct TiledShape {
    int splits = 1;  // shares of the columns
    int stages = 0;  // of each warp's ring
    int rings = 0;   // bytes of all of them, with their barriers behind
    int x = 0;       // bytes of the stages of x
    int means = 0;
    [[nodiscard]] int bytes() const { return rings + x + means + kWarps * stages * 8; }
};

template <typename Traits, int kNTiles>
TiledShape tiled_shape(const CompactMatrix& matrix, int multiprocessors) {
    TiledShape shape;
    shape.x = kXStages * 8 * kNTiles * kXRowBytes;
    shape.means = 8 * kNTiles * kTiledMeans<Traits>;
    const int stage = kWarps * (Traits::layout().block_bytes(kCompactColumns) + 8);
    shape.stages = std::min((kSharedOfBlock - shape.x - shape.means) / stage, kMostRing);
    shape.rings = kWarps * shape.stages * Traits::layout().block_bytes(kCompactColumns);
    const int strips = (matrix.num_tiles() + kTilesOfStrip - 1) / kTilesOfStrip;
    const int most = std::min(kMostSplits, compact_blocks_of(matrix.size));
    shape.splits = std::clamp(multiprocessors / strips, 1, most);
    return shape;
}

// A warp's blocks of weights, in order: for each block of columns those of its tiles. All lanes make every call.
template <typename Traits>
class TiledRing {
  public:
    // Blocks [first, end) of columns of the tiles from `tile` on, `tiles` of them.
    __device__ TiledRing(const CompactMatrix& matrix, std::byte* stages, uint64_t* filled, int num_stages, int tile,
                         int tiles, int first, int end)
        : matrix_(matrix),
          stages_(stages),
          filled_(filled),
          num_stages_(num_stages),
          tile_(tile),
          tiles_(tiles),
          first_(first),
          count_(tiles * (end - first)) {
        if (lane() == 0) {
            for (int i = 0; i < num_stages; ++i) barrier_init(filled + i, 1);
            fence_barrier_init();
        }
        __syncwarp();
        for (int i = 0; i < num_stages; ++i) fetch(i);
    }

    __device__ const std::byte* wait() const {
        barrier_wait(filled_ + next_ % num_stages_, static_cast<uint32_t>(next_ / num_stages_) & 1U, "compact weights");
        return stages_ + next_ % num_stages_ * kStage;
    }
    __device__ void advance() {
        __syncwarp();  // all lanes have read the block
        fetch(next_ + num_stages_);
        ++next_;
    }

  private:
    static constexpr int kStage = Traits::layout().block_bytes(kCompactColumns);
    __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

    __device__ void fetch(int i) {
        if (i >= count_ || lane() != 0) return;
        const int block = first_ + i / tiles_;
        const int columns = min(kCompactColumns, matrix_.size - block * kCompactColumns);
        const auto bytes = static_cast<uint32_t>(Traits::layout().block_bytes(columns));
        const std::byte* const from = matrix_.tiles + (tile_ + i % tiles_) * Traits::layout().tile_bytes(matrix_.size) +
                                      static_cast<int64_t>(block) * kStage;
        barrier_arrive_expect(filled_ + i % num_stages_, bytes);
        bulk_load(stages_ + i % num_stages_ * kStage, from, bytes, filled_ + i % num_stages_);
    }

    const CompactMatrix& matrix_;
    std::byte* stages_;
    uint64_t* filled_;
    const int num_stages_;
    const int tile_;
    const int tiles_;
    const int first_;
    const int count_;
    int next_ = 0;
};

// Starts to copy 256 columns of x, those that there are, to shared memory. Rows beyond x are its last one.
template <typename T, int kNTiles>
__device__ void fetch_x(const T* x, int rows, int size, int block, std::byte* to) {
    constexpr int kPieces = kCompactColumns * 2 / 16;  // of a row
    const int columns = min(kCompactColumns, size - block * kCompactColumns);
    for (int i = static_cast<int>(threadIdx.x); i < 8 * kNTiles * kPieces; i += kThreads) {
        const int row = i / kPieces;
        const int column = i % kPieces * 8;
        if (column >= columns) continue;
        const T* const from = x + static_cast<int64_t>(min(row, rows - 1)) * size + block * kCompactColumns + column;
        copy_async(to + row * kXRowBytes + column * 2, from, true);
    }
}

// Writes the means of the groups of 256 columns of x. Each warp has eight rows: a product with ones adds up their
// groups.
template <typename T, typename Traits, int kNTiles>
__device__ void write_tiled_means(const std::byte* x, int lines, std::byte* means) {
    constexpr bool kNarrow = Traits::kGroup == 16;
    constexpr uint32_t kOne = kIsBFloat16<T> ? 0x3F803F80U : 0x3C003C00U;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    if (warp >= kNTiles) return;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::byte* const row = x + (8 * warp + lane / 4) * kXRowBytes;
    const uint32_t ones[4] = {kOne, kOne, kOne, kOne};
    const auto write = [&](int group, const float(&sums)[4]) {
        if (group % 8 != lane / 4) return;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float mean = sums[i] / Traits::kGroup;
            const T rounded = from_float<T>(mean);
            auto* const to = reinterpret_cast<T*>(means + (8 * warp + 2 * (lane % 4) + i) * kTiledMeans<Traits>);
            to[group] = rounded;
            to[Traits::kGroups + group] = from_float<T>(mean - to_float(rounded));
        }
    };
    for (int pair = 0; pair < kCompactColumns / 32; ++pair) {
        float sums[4] = {};
        float second[4] = {};
        if (pair < 2 * lines) {
            uint32_t b[2][2];
            load_steps<kNarrow>(row + 64 * pair, lane % 4, b);
            multiply(sums, ones, b[0][0], b[0][1], T());
            multiply_add(kNarrow ? second : sums, ones, b[1][0], b[1][1], T());
        }
        if constexpr (kNarrow) {
            write(2 * pair, sums);
            write(2 * pair + 1, second);
        } else {
            write(pair, sums);
        }
    }
}

// Puts the warp's sums of a tile where they belong, by way of `memory`, [8 kNTiles][kCompactTile] float of the warp.
template <typename T, int kNTiles>
__device__ void put_sums(const float (&sums)[kNTiles][4], int tile, int rows, const CompactMatrix& matrix,
                         const CompactOutput& output, float* memory) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int n = 0; n < kNTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            memory[(8 * n + lane % 4 * 2 + i % 2) * kCompactTile + lane / 4 + i / 2 * 8] = sums[n][i];
        }
    }
    __syncwarp();
    const int r = lane % kCompactTile;
#pragma unroll 1
    for (int row = lane / kCompactTile; row < rows; row += kWarp / kCompactTile) {
        const float* const of_row = memory + row * kCompactTile;
        put_output<T>(output, matrix, row, tile, r, of_row[r], of_row[r ^ (kCompactTile / 2)]);
    }
    __syncwarp();
}

// Whether the calling block is the last of its strip to have come here. What the others wrote before can be read then.
__device__ bool is_last_of_strip(int* counter, int splits) {
    __shared__ int before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before = atomicAdd(counter, 1);
        if (before == splits - 1) *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return before == splits - 1;
}

template <typename T, typename Traits, int kNTiles>
__global__ void __launch_bounds__(kThreads)
    tiled_compact_kernel(const CompactMatrix matrix, const TiledShape shape, const T* x, int rows,
                         const CompactOutput output, float4* work, int* counters) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    __trap();
#else
    const int strip = static_cast<int>(blockIdx.x) / shape.splits;
    const int split = static_cast<int>(blockIdx.x) % shape.splits;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int blocks = compact_blocks_of(matrix.size);
    const int first = blocks * split / shape.splits;
    const int end = blocks * (split + 1) / shape.splits;
    const int tile = strip * kTilesOfStrip + warp * kTilesOfWarp;
    const int tiles = max(0, min(kTilesOfWarp, matrix.num_tiles() - tile));

    std::byte* const rings = dynamic_shared();
    std::byte* const x_stages = rings + shape.rings;
    std::byte* const means = x_stages + shape.x;
    auto* const filled = reinterpret_cast<uint64_t*>(means + shape.means);
    TiledRing<Traits> ring(matrix, rings + warp * shape.stages * Traits::layout().block_bytes(kCompactColumns),
                           filled + warp * shape.stages, shape.stages, tile, max(tiles, 1), first,
                           tiles == 0 ? first : end);
    constexpr int kXStage = 8 * kNTiles * kXRowBytes;
    fetch_x<T, kNTiles>(x, rows, matrix.size, first, x_stages);
    commit_copies();

    float sums[kTilesOfWarp][kNTiles][4] = {};
    const uint32_t power = in_register(kPower<T, Traits::kCodes>);
    for (int block = first; block < end; ++block) {
        std::byte* const x_stage = x_stages + (block - first) % kXStages * kXStage;
        if (block + 1 < end) {
            fetch_x<T, kNTiles>(x, rows, matrix.size, block + 1, x_stages + (block + 1 - first) % kXStages * kXStage);
        }
        commit_copies();
        wait_for_copies<1>();
        __syncthreads();
        const int lines = min(kCompactColumns, matrix.size - block * kCompactColumns) / kCompactUnit;
        if constexpr (Traits::kMeans) {
            write_tiled_means<T, Traits, kNTiles>(x_stage, lines, means);
            __syncthreads();
        }
        const XRows rows_of_x{x_stage + lane / 4 * kXRowBytes, kXRowBytes, means + lane / 4 * kTiledMeans<Traits>,
                              kTiledMeans<Traits>};
#pragma unroll
        for (int t = 0; t < kTilesOfWarp; ++t) {
            if (t >= tiles) break;
            const BlockProduct<T, Traits, kNTiles> product(ring.wait(), lines, power, matrix.layout.zero);
            product.add(rows_of_x, sums[t]);
            ring.advance();
        }
        __syncthreads();  // all warps have read x
    }

    if (shape.splits > 1) {
        // [strips, splits, tiles of a strip, kNTiles, lanes]
        const auto place = [&](int of_split, int t, int n) {
            const int64_t of_tile =
                (int64_t{strip} * shape.splits + of_split) * kTilesOfStrip + warp * kTilesOfWarp + t;
            return work + (of_tile * kNTiles + n) * kWarp + lane;
        };
#pragma unroll
        for (int t = 0; t < kTilesOfWarp; ++t) {
#pragma unroll
            for (int n = 0; n < kNTiles; ++n) {
                const float(&of)[4] = sums[t][n];
                *place(split, t, n) = make_float4(of[0], of[1], of[2], of[3]);
            }
        }
        if (!is_last_of_strip(counters + strip, shape.splits)) return;
#pragma unroll
        for (int t = 0; t < kTilesOfWarp; ++t) {
#pragma unroll
            for (int n = 0; n < kNTiles; ++n) {
                float(&of)[4] = sums[t][n];
                of[0] = of[1] = of[2] = of[3] = 0;
                for (int i = 0; i < shape.splits; ++i) {
                    const float4 more = *place(i, t, n);
                    of[0] += more.x;
                    of[1] += more.y;
                    of[2] += more.z;
                    of[3] += more.w;
                }
            }
        }
    }
    // All warps have read x.
    auto* const memory = reinterpret_cast<float*>(x_stages) + warp * 8 * kNTiles * kCompactTile;
    static_assert(kWarps * 8 * kNTiles * kCompactTile * sizeof(float) <= kXStages * kXStage);
#pragma unroll
    for (int t = 0; t < kTilesOfWarp; ++t) {
        if (t < tiles) put_sums<T, kNTiles>(sums[t], tile + t, rows, matrix, output, memory);
    }
#endif
}

// Calls use(traits, number of tiles of eight rows as an integral_constant).
template <typename Use, typename Otherwise>
auto with_tiles(const CompactLayout& layout, int rows, const Use& use, const Otherwise& otherwise) {
    const auto with_form = [&](auto tiles) {
        return CompactForms::with(
            layout, [&](auto traits) { return use(traits, tiles); }, otherwise);
    };
    if (rows <= 16) return with_form(std::integral_constant<int, 2>());
    if (rows <= 32) return with_form(std::integral_constant<int, 4>());
    return with_form(std::integral_constant<int, 8>());
}

}  // namespace

Result<TiledWork> allocate_tiled_work(int max_outputs, int multiprocessors, cudaStream_t stream) {
    const size_t strips = static_cast<size_t>(max_outputs) / (kTilesOfStrip * kCompactTile) + 2;
    // Blocks that leave sums: as many as multiprocessors where columns are shared out.
    const size_t blocks = static_cast<size_t>(multiprocessors);
    TiledWork work;
    NL_ASSIGN(work.sums,
              allocate_device(blocks * kTilesOfStrip * (kTiledRows / 8) * kWarp * sizeof(float4), "sums of products"));
    NL_ASSIGN(work.counters, allocate_device(strips * sizeof(int), "counters of products"));
    NL_CUDA_TRY(cudaMemsetAsync(work.counters.data(), 0, strips * sizeof(int), stream));
    return Result<TiledWork>(std::move(work));
}

bool tiled_compact_supports(const CompactLayout& layout, int rows, int size, const GpuFacts& gpu) {
    if (gpu.major != 9 || rows > kTiledRows || size % kCompactUnit != 0) return false;
    return CompactForms::with(
        layout, [](auto) { return true; }, [] { return false; });
}

template <typename T>
Result<void> tiled_compact(const T* x, int rows, const CompactMatrix& matrix, const CompactOutput& output,
                           const TiledWork& work, int multiprocessors, cudaStream_t stream) {
    const auto start = [&](auto traits, auto tiles) {
        using Traits = decltype(traits);
        constexpr int kNTiles = decltype(tiles)::value;
        const TiledShape shape = tiled_shape<Traits, kNTiles>(matrix, multiprocessors);
        const int strips = (matrix.num_tiles() + kTilesOfStrip - 1) / kTilesOfStrip;
        const LaunchShape launch_shape{dim3(static_cast<unsigned>(strips * shape.splits)), dim3(kThreads),
                                       static_cast<size_t>(shape.bytes())};
        return launch(tiled_compact_kernel<T, Traits, kNTiles>, launch_shape, stream, matrix, shape, x, rows, output,
                      work.sums.as<float4>(), work.counters.as<int>());
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "compact weights: expected a form that tiled_compact_supports()");
    };
    return with_tiles(matrix.layout, rows, start, refuse);
}

template Result<void> tiled_compact(const __half*, int, const CompactMatrix&, const CompactOutput&, const TiledWork&,
                                    int, cudaStream_t);
template Result<void> tiled_compact(const __nv_bfloat16*, int, const CompactMatrix&, const CompactOutput&,
                                    const TiledWork&, int, cudaStream_t);

}  // namespace nanolith::cuda
