// Tiling: that of compact/streamed_compact.cu. A pair is a row and an expert that the row has chosen. Gate and up: the
// blocks share out the tiles of 16 weight rows of all pairs' experts; each tile is multiplied with its pair's row
// alone, so that of an mma's eight columns one is used. Down: the blocks share out the rows' outputs, 16 at a time; the
// products of these outputs with each of the row's experts are multiplied by the experts' shares and added in float32,
// in the order of the choice.
//
// Bytes: the codes and scales of every pair's expert, read once for each pair. Flops: 2 * 8 times the number of these
// weights. Bound by memory and, at one row, by two launches that can fetch no weights before the router is done: down
// takes 11 us for a layer of Qwen3-30B-A3B in int4 on an H100. 67 to 120 registers, no spills (sm_90a, nvcc 13.0).
#include "compact/forms.h"
#include "compact/streamed_tiles.cuh"
#include "device/activation.cuh"
#include "device/dependent.cuh"
#include "experts/streamed_choice.cuh"
#include "linear/streamed_input.cuh"

namespace nanolith::cuda {

namespace {

constexpr int kMostRows = 4;

// Tiles of all experts, one expert's behind the other's, as blocks of weights (CompactRing).
template <typename Traits>
struct ExpertBlocks {
    const std::byte* tiles;
    int size;
    int tiles_of_expert;

    [[nodiscard]] __device__ int blocks() const { return compact_blocks_of(size); }
    [[nodiscard]] __device__ int columns(int block) const {
        return min(kCompactColumns, size - block * kCompactColumns);
    }
    [[nodiscard]] __device__ const std::byte* at(int expert, int tile, int block) const {
        return tiles + (static_cast<int64_t>(expert) * tiles_of_expert + tile) * Traits::layout().tile_bytes(size) +
               static_cast<int64_t>(block) * Traits::layout().block_bytes(kCompactColumns);
    }
};

// Gate and up: first come all tiles of pair 0, then those of pair 1, and so on.
template <typename Traits>
struct GateUpBlocks {
    ExpertBlocks<Traits> all;
    const int32_t* experts;  // [pairs] in shared memory

    [[nodiscard]] __device__ int blocks_of_tile() const { return all.blocks(); }
    [[nodiscard]] __device__ int columns(int block) const { return all.columns(block); }
    [[nodiscard]] __device__ const std::byte* at(int tile, int block) const {
        return all.at(experts[tile / all.tiles_of_expert], tile % all.tiles_of_expert, block);
    }
};

// Down: a tile of a row has the blocks of that tile in each of the row's experts, one expert's behind the other's.
// First come all tiles of row 0, then those of row 1, and so on.
template <typename Traits>
struct DownBlocks {
    ExpertBlocks<Traits> all;
    const int32_t* experts;  // [pairs] in shared memory
    int top_k;

    [[nodiscard]] __device__ int blocks_of_tile() const { return top_k * all.blocks(); }
    [[nodiscard]] __device__ int columns(int block) const { return all.columns(block % all.blocks()); }
    [[nodiscard]] __device__ int pair(int tile, int block) const {
        return tile / all.tiles_of_expert * top_k + block / all.blocks();
    }
    [[nodiscard]] __device__ const std::byte* at(int tile, int block) const {
        return all.at(experts[pair(tile, block)], tile % all.tiles_of_expert, block % all.blocks());
    }
};

// Adds the product of a warp's next block with one row of x. Both pointers are to shared memory, where that row and its
// means begin; `block`: of the row.
template <typename T, typename Traits, typename Ring>
__device__ void multiply_row(const Ring& ring, int zero, uint32_t power, const std::byte* x, const std::byte* means,
                             int block, CompactSums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const BlockProduct<T, Traits> product({ring.wait(), ring.lines(), power, zero});
    product.add(x + block * kCompactColumns * 2 + lane / 8 * 16, means + block * kMeanBytes<Traits>, sums.of);
}

template <typename T, typename Traits>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    compact_gate_up_kernel(const CompactMatrix matrix, const CompactShared sizes, const ExpertRows rows,
                           const NormedX<T> input, const float* logits, const Activation activation,
                           const RoutingView routing, T* inner) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    __trap();
#else
    __shared__ int32_t experts[kMostPairs];
    __shared__ float shares[kMostPairs];
    let_next_launch_begin();
    const int tiles_of_pair = matrix.num_tiles();
    const int size = matrix.size;
    const int top_k = rows.spec.top_k;
    const PartsOfBlock parts(sizes, rows.pairs() * tiles_of_pair);
    input.prefetch_norm();
    wait_for_launches_before();
    if (parts.first == parts.end) return;
    choose_all(logits, rows, routing, experts, shares);
    CompactRing<Traits, GateUpBlocks<Traits> > ring({{matrix.tiles, size, tiles_of_pair}, experts}, sizes, parts);
    input.load(RowsInShared{parts.x, compact_x_bytes(size)});
    __syncthreads();
    if constexpr (Traits::kMeans) {
        write_means<T, Traits>(parts.x, rows.rows, size, parts.means);
        __syncthreads();
    }

    const uint32_t power = in_register(kPower<T, Traits::kCodes>);
    const auto multiply = [&](auto& from, CompactSums& sums) {
        const int row = from.tile() / (tiles_of_pair * top_k);
        multiply_row<T, Traits>(from, matrix.layout.zero, power, parts.x + row * compact_x_bytes(size),
                                parts.means + row * means_row_bytes<Traits>(compact_blocks_of(size)), from.block(),
                                sums);
        from.advance();
    };
    const auto store = [&](int, int tile, int r, float sum, float other) {
        const int output = tile % tiles_of_pair * (kCompactTile / 2) + r;
        if (r >= kCompactTile / 2 || output >= matrix.outputs) return;
        const int64_t pair = tile / tiles_of_pair;
        inner[pair * matrix.outputs + output] = from_float<T>(activate(activation, sum) * other);
    };
    multiply_tiles<CompactSums, CompactOutputOfThread>(parts, ring, 1, 0.0F, multiply, NoBase(), store);
#endif
}

// Copies the activations of `pairs` pairs, [pairs, size], to shared memory, rows of compact_x_bytes(size).
template <typename T>
__device__ void load_pairs(const T* inner, int pairs, int size, std::byte* x) {
    const int packs = size / kPack<T>;
    for (int i = static_cast<int>(threadIdx.x); i < pairs * packs; i += kStreamedThreads) {
        auto* const to = reinterpret_cast<uint4*>(x + i / packs * compact_x_bytes(size)) + i % packs;
        *to = reinterpret_cast<const uint4*>(inner)[i];
    }
}

template <typename T, typename Traits>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    compact_down_kernel(const CompactMatrix matrix, const CompactShared sizes, const ExpertRows rows, const T* inner,
                        const RoutingView routing, float* residual) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    __trap();
#else
    __shared__ int32_t experts[kMostPairs];
    __shared__ float shares[kMostPairs];
    let_next_launch_begin();
    const int size = matrix.size;
    const int top_k = rows.spec.top_k;
    const int tiles_of_row = matrix.num_tiles();
    const PartsOfBlock parts(sizes, rows.rows * tiles_of_row);
    wait_for_launches_before();
    if (parts.first == parts.end) return;
    for (int pair = static_cast<int>(threadIdx.x); pair < rows.pairs(); pair += kStreamedThreads) {
        experts[pair] = routing.experts[pair];
        shares[pair] = routing.shares[pair];
    }
    __syncthreads();
    const DownBlocks<Traits> source{{matrix.tiles, size, tiles_of_row}, experts, top_k};
    CompactRing<Traits, DownBlocks<Traits> > ring(source, sizes, parts);
    const auto base = [&](int, int tile, int r) {
        const int output = tile % tiles_of_row * kCompactTile + r;
        return output < rows.hidden ? residual[static_cast<int64_t>(tile / tiles_of_row) * rows.hidden + output] : 0.0F;
    };
    const float first_base = CompactOutputOfThread().base(1, parts.first, parts.end, base);
    // Of the rows that the block's tiles belong to.
    const int first_pair = parts.first / tiles_of_row * top_k;
    const int pairs = ((parts.end - 1) / tiles_of_row + 1) * top_k - first_pair;
    load_pairs(inner + static_cast<int64_t>(first_pair) * size, pairs, size, parts.x);
    __syncthreads();
    if constexpr (Traits::kMeans) {
        write_means<T, Traits>(parts.x, pairs, size, parts.means);
        __syncthreads();
    }

    const uint32_t power = in_register(kPower<T, Traits::kCodes>);
    const auto multiply = [&, counts = static_cast<const float*>(shares)](auto& from, CompactSums& sums) {
        const int pair = source.pair(from.tile(), from.block());
        const int place = pair - first_pair;
        CompactSums of_block;
        multiply_row<T, Traits>(from, matrix.layout.zero, power, parts.x + place * compact_x_bytes(size),
                                parts.means + place * means_row_bytes<Traits>(compact_blocks_of(size)),
                                from.block() % source.all.blocks(), of_block);
        const float share = counts[pair];
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.of[0][i] = fmaf(share, of_block.of[0][i], sums.of[0][i]);
        from.advance();
    };
    const auto store = [&](int, int tile, int r, float sum, float) {
        const int output = tile % tiles_of_row * kCompactTile + r;
        if (output < rows.hidden) residual[static_cast<int64_t>(tile / tiles_of_row) * rows.hidden + output] = sum;
    };
    multiply_tiles<CompactSums, CompactOutputOfThread>(parts, ring, 1, first_base, multiply, base, store);
#endif
}

// As in streamed_experts.cu: more than half keeps the blocks of gate and up apart.
template <typename Traits>
CompactShared gate_up_shared(const ExpertRows& rows, bool half) {
    return compact_shared<Traits>(1, rows.rows, rows.hidden, shared_part(half, true));
}

// A block has the activations of all rows that its tiles belong to.
template <typename Traits>
CompactShared down_shared(const ExpertRows& rows, int multiprocessors, bool half) {
    const int tiles_of_row = (rows.hidden + kCompactTile - 1) / kCompactTile;
    const int tiles_of_block = (rows.rows * tiles_of_row + multiprocessors - 1) / multiprocessors;
    const int most_rows = std::min(rows.rows, (tiles_of_block + tiles_of_row - 2) / tiles_of_row + 1);
    return compact_shared<Traits>(1, most_rows * rows.spec.top_k, rows.spec.intermediate_size,
                                  shared_part(half, false));
}

Result<void> refuse() {
    return fail(NL_ERROR_INTERNAL, "experts' weights: expected a form that streamed_compact_experts_support()");
}

}  // namespace

bool streamed_compact_experts_support(const ExpertRows& rows, const CompactLayout& gate_up, const CompactLayout& down,
                                      bool half, const GpuFacts& gpu) {
    if (gpu.major != 9 || rows.rows > kMostRows || rows.pairs() > kMostPairs || rows.hidden % kCompactUnit != 0 ||
        rows.spec.intermediate_size % kCompactUnit != 0)
        return false;
    const auto of_gate_up = [&](auto traits) { return gate_up_shared<decltype(traits)>(rows, half).stages; };
    const auto of_down = [&](auto traits) {
        return down_shared<decltype(traits)>(rows, gpu.multiprocessors, half).stages;
    };
    const auto none = [] { return 0; };
    return CompactForms::with(gate_up, of_gate_up, none) >= kFewestStages &&
           CompactForms::with(down, of_down, none) >= kFewestStages;
}

template <typename T>
Result<void> streamed_compact_gate_up(const ExpertRows& rows, const NormedRows<T>& x, const float* logits,
                                      Activation activation, const CompactMatrix& first, const RoutingView& routing,
                                      T* inner, const StreamedLaunch& how) {
    const auto start = [&](auto traits) {
        using Traits = decltype(traits);
        const auto sizes = gate_up_shared<Traits>(rows, how.half);
        const LaunchShape shape{dim3(static_cast<unsigned>(how.multiprocessors)), dim3(kStreamedThreads),
                                static_cast<size_t>(sizes.bytes()), how.early};
        return launch(compact_gate_up_kernel<T, Traits>, shape, how.stream, first, sizes, rows, NormedX<T>{x}, logits,
                      activation, routing, inner);
    };
    return CompactForms::with(first.layout, start, refuse);
}

template <typename T>
Result<void> streamed_compact_down(const ExpertRows& rows, const T* inner, const CompactMatrix& first,
                                   const RoutingView& routing, float* residual, const StreamedLaunch& how) {
    const auto start = [&](auto traits) {
        using Traits = decltype(traits);
        const auto sizes = down_shared<Traits>(rows, how.multiprocessors, how.half);
        const LaunchShape shape{dim3(static_cast<unsigned>(how.multiprocessors)), dim3(kStreamedThreads),
                                static_cast<size_t>(sizes.bytes()), how.early};
        return launch(compact_down_kernel<T, Traits>, shape, how.stream, first, sizes, rows, inner, routing, residual);
    };
    return CompactForms::with(first.layout, start, refuse);
}

#define NL_INSTANTIATE(T)                                                                                              \
    template Result<void> streamed_compact_gate_up(const ExpertRows&, const NormedRows<T>&, const float*, Activation,  \
                                                   const CompactMatrix&, const RoutingView&, T*,                       \
                                                   const StreamedLaunch&);                                             \
    template Result<void> streamed_compact_down(const ExpertRows&, const T*, const CompactMatrix&, const RoutingView&, \
                                                float*, const StreamedLaunch&);
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
