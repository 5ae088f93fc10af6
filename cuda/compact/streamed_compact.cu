// Tiling: one block of eight warps a multiprocessor. A block has an equal share of the tiles of 16 weight rows; their
// blocks of 256 columns go to its warps in turn, each of which has a ring of them in shared memory, fills it with the
// copy engine, a block a copy, and multiplies with mma.m16n8k16: the codes, widened in registers, are the operand A,
// x is B. The warps' sums of a tile meet in shared memory, once for every two tiles.
//
// Bytes: those of the matrix, each read once. Flops: 2 * 8 * outputs * size. Bound by memory with 8 bits a weight, and
// nearly as much by the issue of instructions with 4: a block of Q4_K takes about 350 of a warp, where memory's rate
// leaves it 500. Rings are filled before the wait for the launches before this one, so that weights flow while those
// end. Every sum is made in an order that depends on the shape alone. 61 to 109 registers, no spills (sm_90a, nvcc
// 13.0).
#include "compact/streamed_compact.h"

#include <algorithm>

#include "compact/forms.h"
#include "compact/output.cuh"
#include "compact/product.cuh"
#include "device/dependent.cuh"
#include "device/dynamic_shared.cuh"
#include "device/tma.cuh"
#include "linear/streamed_input.cuh"
#include "linear/streamed_tiles.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kTiles = 2;  // between two barriers of the block
constexpr int kMostRingStages = 12;

// ---- Shared memory of a block: rings, x, means of x, partials, barriers of all rings ------------------------

// Bytes from one row of x, of `size` columns, to the next in shared memory: 16 more than a multiple of 128, so that the
// same 16 bytes of eight rows, which ldmatrix loads at once, are in different banks.
__host__ __device__ constexpr int compact_x_bytes(int size) {
    return (size * 2 + 127) / 128 * 128 + 16;
}

struct CompactShared {
    int stage = 0;     // bytes of a ring's stage: a block of weights
    int stages = 0;    // of each warp's ring: a block and a barrier each
    int x = 0;         // bytes of the rows of activations
    int means = 0;     // bytes of their means
    int partials = 0;  // bytes of [2][kTiles, warps, rows, kCompactTile] float, the warps' sums of a group of tiles
    int unused = 0;    // bytes that keep a second block of the same launch away
    [[nodiscard]] __host__ __device__ int rings() const { return kStreamedWarps * stages * stage; }
    [[nodiscard]] __host__ __device__ int barriers() const { return kStreamedWarps * stages * 8; }
    [[nodiscard]] int bytes() const { return rings() + x + means + partials + barriers() + unused; }
};

template <typename Traits>
CompactShared shared_of(int rows, int size, SharedPart part) {
    CompactShared sizes;
    sizes.stage = Traits::layout().block_bytes(kCompactColumns);
    sizes.x = rows * compact_x_bytes(size);
    sizes.means = rows * means_row_bytes<Traits>(compact_blocks_of(size));
    sizes.partials = 2 * kTiles * kStreamedWarps * rows * kCompactTile * static_cast<int>(sizeof(float));
    const int limit = (part == SharedPart::all              ? kSharedOfMultiprocessor
                       : part == SharedPart::less_than_half ? kLessThanHalf
                                                            : kMoreThanHalf) -
                      kOutsideDynamic;
    const int left = limit - sizes.x - sizes.means - sizes.partials;
    sizes.stages = std::min(left / (kStreamedWarps * (sizes.stage + 8)), kMostRingStages);
    if (part == SharedPart::more_than_half) sizes.unused = limit - sizes.bytes();
    return sizes;
}

// Where the parts of a block's shared memory are, and the tiles [first, end) that the block computes: none in some
// blocks, where there are fewer tiles than blocks.
struct CompactParts {
    std::byte* rings;
    std::byte* x;
    std::byte* means;
    float* partials;
    uint64_t* filled;
    int first;
    int end;

    __device__ CompactParts(const CompactShared& sizes, int num_tiles)
        : rings(dynamic_shared()),
          x(rings + sizes.rings()),
          means(x + sizes.x),
          partials(reinterpret_cast<float*>(means + sizes.means)),
          filled(reinterpret_cast<uint64_t*>(means + sizes.means + sizes.partials)),
          first(first_of(blockIdx.x, num_tiles)),
          end(first_of(blockIdx.x + 1, num_tiles)) {}

  private:
    __device__ static int first_of(unsigned block, int num_tiles) {
        return static_cast<int>(static_cast<int64_t>(num_tiles) * block / gridDim.x);
    }
};

// ---- The product --------------------------------------------------------------------------------------------

// The calling warp's ring of blocks of weights. All lanes make every call.
template <typename Traits>
class CompactRing {
  public:
    // The ring of the calling warp, which it starts to fill.
    __device__ CompactRing(const CompactMatrix& matrix, const CompactShared& sizes, const CompactParts& parts)
        : tiles_(matrix.tiles),
          size_(matrix.size),
          tile_bytes_(Traits::layout().tile_bytes(matrix.size)),
          stages_(sizes.stages),
          end_(parts.end) {
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        blocks_ = parts.rings + warp * stages_ * kStage;
        filled_ = parts.filled + warp * stages_;
        if (lane() == 0) {
            for (int i = 0; i < stages_; ++i) barrier_init(filled_ + i, 1);
            fence_barrier_init();
        }
        __syncwarp();
        next_.tile = parts.first;
        next_.skip(warp, compact_blocks_of(size_));
        fetched_ = next_;
        for (int i = 0; i < stages_; ++i) fetch();
    }

    // The tile that the warp's next block belongs to, and its number in that tile.
    [[nodiscard]] __device__ int tile() const { return next_.tile; }
    [[nodiscard]] __device__ int block() const { return next_.chunk; }
    // Waits for the next block and gives its address.
    __device__ const std::byte* wait() const {
        barrier_wait(filled_ + next_.stage, next_.parity, "compact weights");
        return blocks_ + next_.stage * kStage;
    }
    [[nodiscard]] __device__ int lines() const {
        return min(kCompactColumns, size_ - next_.chunk * kCompactColumns) / kCompactUnit;
    }
    // Goes to the block after it, and fetches another one to where it was.
    __device__ void advance() {
        __syncwarp();  // all lanes have read the block
        next_.advance(compact_blocks_of(size_), stages_);
        fetch();
    }

  private:
    static constexpr int kStage = Traits::layout().block_bytes(kCompactColumns);

    __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

    __device__ void fetch() {
        if (fetched_.tile >= end_) return;
        if (lane() == 0) {
            const int columns = min(kCompactColumns, size_ - fetched_.chunk * kCompactColumns);
            const auto bytes = static_cast<uint32_t>(Traits::layout().block_bytes(columns));
            uint64_t* const filled = filled_ + fetched_.stage;
            barrier_arrive_expect(filled, bytes);
            bulk_load(blocks_ + fetched_.stage * kStage,
                      tiles_ + fetched_.tile * tile_bytes_ + static_cast<int64_t>(fetched_.chunk) * kStage, bytes,
                      filled);
        }
        fetched_.advance(compact_blocks_of(size_), stages_);
    }

    const std::byte* tiles_;
    int size_;
    int64_t tile_bytes_;
    int stages_;
    int end_;
    std::byte* blocks_;
    uint64_t* filled_;  // [stages] the stage's block is there
    ChunkPosition next_;
    ChunkPosition fetched_;
};

// Writes the warp's sums of a tile to partials [warps, rows, kCompactTile].
__device__ void write_partials(const float (&sums)[4], int rows, float* partials) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = lane % 4 * 2 + i % 2;
        if (row < rows) partials[(warp * rows + row) * kCompactTile + lane / 4 + i / 2 * 8] = sums[i];
    }
}

// Adds the warps' partials [kTiles, warps, rows, kCompactTile] of the tiles from `first` on, and puts those before
// `end` where they belong. All lanes of a warp take part or none.
template <typename T>
__device__ void put_tiles(const float* partials, int rows, int first, int end, const CompactMatrix& matrix,
                          const CompactOutput& output) {
    static_assert(kStreamedThreads == kTiles * kCompactTile * kStreamedRows && kTiles * kCompactTile % kWarp == 0);
    const int thread = static_cast<int>(threadIdx.x);
    const int r = thread % kCompactTile;
    const int tile = thread / kCompactTile % kTiles;
    const int row = thread / (kCompactTile * kTiles);
    if (row >= rows) return;
    float sum = 0;
    if (first + tile < end) {
#pragma unroll
        for (int w = 0; w < kStreamedWarps; ++w) {
            sum += partials[((tile * kStreamedWarps + w) * rows + row) * kCompactTile + r];
        }
    }
    const float other = __shfl_xor_sync(kAllLanes, sum, kCompactTile / 2);
    if (first + tile < end) put_output<T>(output, matrix, row, first + tile, r, sum, other);
}

// Writes the means of all groups of x.
template <typename T, typename Traits>
__device__ void write_means(const std::byte* x, int rows, int size, std::byte* means) {
    const int groups = compact_blocks_of(size) * Traits::kGroups;  // of a row, those beyond it included
    for (int i = static_cast<int>(threadIdx.x); i < rows * groups; i += kStreamedThreads) {
        const int row = i / groups;
        const int group = i % groups;
        auto* const to = reinterpret_cast<T*>(means + row * means_row_bytes<Traits>(compact_blocks_of(size)) +
                                              group / Traits::kGroups * kMeanBytes<Traits>) +
                         group % Traits::kGroups;
        const int column = group * Traits::kGroup;
        if (column < size) {
            write_mean(x + row * compact_x_bytes(size) + 2 * column, Traits::kGroup, to, Traits::kGroups);
        } else {
            to[0] = to[Traits::kGroups] = from_float<T>(0);
        }
    }
}

template <typename T>
__device__ void load_x(const CompactX<T>& input, std::byte* to) {
    if (input.plain != nullptr) {
        PlainX<T>{{input.plain, input.normed.rows, input.normed.size}}.load(to, compact_x_bytes(input.normed.size));
    } else {
        NormedX<T>{input.normed}.load(to, compact_x_bytes(input.normed.size));
    }
}

template <typename T, typename Traits>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    streamed_compact_kernel(const CompactMatrix matrix, const CompactShared sizes, const CompactX<T> input,
                            const CompactOutput output) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    __trap();
#else
    let_next_launch_begin();
    const CompactParts parts(sizes, matrix.num_tiles());
    CompactRing<Traits> ring(matrix, sizes, parts);
    if (input.plain == nullptr) NormedX<T>{input.normed}.prefetch_norm();
    wait_for_launches_before();
    if (parts.first == parts.end) return;
    load_x(input, parts.x);
    __syncthreads();
    const int rows = input.normed.rows;
    const int size = matrix.size;
    if constexpr (Traits::kMeans) {
        write_means<T, Traits>(parts.x, rows, size, parts.means);
        __syncthreads();
    }

    // Columns of C beyond the rows of x are those of the last one, and go nowhere.
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::byte* const x = parts.x + min(lane % 8, rows - 1) * compact_x_bytes(size) + lane / 8 * 16;
    const std::byte* const means =
        parts.means + min(lane / 4, rows - 1) * means_row_bytes<Traits>(compact_blocks_of(size));
    const uint32_t power = in_register(kPower<T, Traits::kCodes>);
    const int tile_floats = kStreamedWarps * rows * kCompactTile;
    int buffer = 0;  // a warp may write the next group's partials while others still read this group's
    for (int group = parts.first; group < parts.end; group += kTiles) {
        float* const partials = parts.partials + buffer * kTiles * tile_floats;
        for (int tile = group; tile < min(group + kTiles, parts.end); ++tile) {
            float sums[1][4] = {};
            while (ring.tile() == tile) {
                const std::byte* const block = ring.wait();
                const BlockProduct<T, Traits> product({block, ring.lines(), power, matrix.layout.zero});
                product.add(x + ring.block() * kCompactColumns * 2, means + ring.block() * kMeanBytes<Traits>, sums);
                ring.advance();
            }
            write_partials(sums[0], rows, partials + (tile - group) * tile_floats);
        }
        __syncthreads();
        put_tiles<T>(partials, rows, group, parts.end, matrix, output);
        buffer ^= 1;
    }
#endif
}

SharedPart part_of(bool half, bool alone) {
    return !half ? SharedPart::all : alone ? SharedPart::more_than_half : SharedPart::less_than_half;
}

}  // namespace

bool streamed_compact_supports(const CompactLayout& layout, int rows, int size, bool half, const GpuFacts& gpu) {
    if (gpu.major != 9 || rows > kStreamedRows || size % kCompactUnit != 0) return false;
    const auto stages = [&](auto traits) {
        return shared_of<decltype(traits)>(rows, size, part_of(half, false)).stages;
    };
    return CompactForms::with(layout, stages, [] { return 0; }) >= kFewestStages;
}

template <typename T>
Result<void> streamed_compact(const CompactX<T>& x, const CompactMatrix& matrix, const CompactOutput& output,
                              const StreamedLaunch& how) {
    const auto start = [&](auto traits) {
        using Traits = decltype(traits);
        const CompactShared sizes = shared_of<Traits>(x.normed.rows, matrix.size, part_of(how.half, how.alone));
        const LaunchShape shape{dim3(static_cast<unsigned>(how.multiprocessors)), dim3(kStreamedThreads),
                                static_cast<size_t>(sizes.bytes()), how.early};
        return launch(streamed_compact_kernel<T, Traits>, shape, how.stream, matrix, sizes, x, output);
    };
    const auto refuse = []() -> Result<void> {
        return fail(NL_ERROR_INTERNAL, "compact weights: expected a form that streamed_compact_supports()");
    };
    return CompactForms::with(matrix.layout, start, refuse);
}

template Result<void> streamed_compact(const CompactX<__half>&, const CompactMatrix&, const CompactOutput&,
                                       const StreamedLaunch&);
template Result<void> streamed_compact(const CompactX<__nv_bfloat16>&, const CompactMatrix&, const CompactOutput&,
                                       const StreamedLaunch&);

}  // namespace nanolith::cuda
