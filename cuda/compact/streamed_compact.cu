// Tiling: one block of eight warps a multiprocessor. A block has an equal share of the tiles of 16 weight rows; their
// blocks of 256 columns go to its warps in turn, each of which has a ring of them in shared memory, fills it with the
// copy engine, a block a copy, and multiplies with mma.m16n8k16: the codes, widened in registers, are the operand A,
// x is B. The warps' sums of a tile meet in shared memory, once for every two tiles.
//
// Bytes: those of the matrix, each read once. Flops: 2 * 8 * outputs * size. With 8 bits a weight it is bound by
// memory. With 4 it is bound by the instructions of its warps: a warp takes about 1,500 cycles for a block of Q4_K, in
// which time memory could bring more than its next one (Llama-3.1-8B's shape on an H200: 2.07 ms a token, 1.87 without
// the copies of weights, 1.44 without the products). Rings are filled before the wait for the launches before this one,
// so that weights flow while those end. Every sum is made in an order that depends on the shape alone. 72 to 116
// registers, no spills (sm_90a, nvcc 13.0).
#include "compact/streamed_compact.h"

#include "compact/forms.h"
#include "compact/output.cuh"
#include "compact/streamed_tiles.cuh"
#include "device/dependent.cuh"
#include "linear/streamed_input.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

// The blocks of a matrix (CompactRing).
template <typename Traits>
struct MatrixBlocks {
    const std::byte* tiles;
    int size;

    [[nodiscard]] __device__ int blocks_of_tile() const { return compact_blocks_of(size); }
    [[nodiscard]] __device__ int columns(int block) const {
        return min(kCompactColumns, size - block * kCompactColumns);
    }
    [[nodiscard]] __device__ const std::byte* at(int tile, int block) const {
        return tiles + tile * Traits::layout().tile_bytes(size) +
               static_cast<int64_t>(block) * Traits::layout().block_bytes(kCompactColumns);
    }
};

template <typename T>
__device__ void load_x(const CompactX<T>& input, std::byte* to) {
    const RowsInShared rows{to, compact_x_bytes(input.normed.size)};
    if (input.plain != nullptr) {
        PlainX<T>{{input.plain, input.normed.rows, input.normed.size}}.load(rows);
    } else {
        NormedX<T>{input.normed}.load(rows);
    }
}

// Puts the elements of a row x in shared memory in the order of `columns` (CompactX). All threads of the block take
// part; each holds pairs of 16-bit elements in registers until all have been read. Unused before Hopper.
[[maybe_unused]] __device__ void put_in_order(const int32_t* columns, int size, uint16_t* x) {
    constexpr int kHeld = kMostOrderedColumns / 2 / kStreamedThreads;
    const int pairs = size / 2;
    // Threads without a pair take the last one, and write what its own thread does.
    const auto pair_of = [&](int i) { return min(i * kStreamedThreads + static_cast<int>(threadIdx.x), pairs - 1); };
    uint32_t held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
        if (i * kStreamedThreads >= pairs) break;
        const int2 from = reinterpret_cast<const int2*>(columns)[pair_of(i)];
        held[i] = x[from.x] | static_cast<uint32_t>(x[from.y]) << 16;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
        if (i * kStreamedThreads >= pairs) break;
        reinterpret_cast<uint32_t*>(x)[pair_of(i)] = held[i];
    }
    __syncthreads();
}

template <typename T, typename Traits>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    streamed_compact_kernel(const CompactMatrix matrix, const CompactShared sizes, const CompactX<T> input,
                            const CompactOutput output) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    __trap();
#else
    let_next_launch_begin();
    const PartsOfBlock parts(sizes, matrix.num_tiles());
    const int size = matrix.size;
    CompactRing<Traits, MatrixBlocks<Traits> > ring({matrix.tiles, size}, sizes, parts);
    if (input.plain == nullptr) NormedX<T>{input.normed}.prefetch_norm();
    wait_for_launches_before();
    if (parts.first == parts.end) return;
    const int rows = input.normed.rows;
    const auto base = [&](int row, int tile, int r) { return base_of_output(output, matrix, row, tile, r); };
    const float first_base = CompactOutputOfThread().base(rows, parts.first, parts.end, base);
    load_x(input, parts.x);
    __syncthreads();
    if (input.columns != nullptr) put_in_order(input.columns, size, reinterpret_cast<uint16_t*>(parts.x));
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
    const auto multiply = [&](auto& from, CompactSums& sums) {
        const std::byte* const block = from.wait();
        const BlockProduct<T, Traits> product({block, from.lines(), power, matrix.layout.zero});
        product.add(x + from.block() * kCompactColumns * 2, means + from.block() * kMeanBytes<Traits>, sums.of);
        from.advance();
    };
    const auto store = [&](int row, int tile, int r, float sum, float other) {
        put_output<T>(output, matrix, row, tile, r, sum, other);
    };
    multiply_tiles<CompactSums, CompactOutputOfThread>(parts, ring, rows, first_base, multiply, base, store);
#endif
}

}  // namespace

bool streamed_compact_supports(const CompactLayout& layout, int rows, int size, bool half, const GpuFacts& gpu) {
    if (gpu.major != 9 || rows > kStreamedCompactRows || size % kCompactUnit != 0) return false;
    const auto stages = [&](auto traits) {
        return compact_shared<decltype(traits)>(rows, rows, size, shared_part(half, false)).stages;
    };
    return CompactForms::with(layout, stages, [] { return 0; }) >= kFewestStages;
}

template <typename T>
Result<void> streamed_compact(const CompactX<T>& x, const CompactMatrix& matrix, const CompactOutput& output,
                              const StreamedLaunch& how) {
    const auto start = [&](auto traits) {
        using Traits = decltype(traits);
        const int rows = x.normed.rows;
        const auto sizes = compact_shared<Traits>(rows, rows, matrix.size, shared_part(how.half, how.alone));
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
