// Tiling: that of linear/streamed.cu, over tiles of all pairs of a row and an expert. Gate and up: a tile is four
// weight rows of each, of one pair's expert; its activations are the pair's row, so one of an mma's rows is used. Down:
// a tile is eight weight rows of each of a row's experts, whose sums are added by their shares in float32, in the order
// of the choice.
//
// Bytes: 3 * pairs * hidden * intermediate * sizeof(T), each read once for each pair. Flops: twice the number of these
// weights. Bound by memory and, at one row, by two launches that can fetch no weights before the router is done. 80 or
// 84 registers, no spills (sm_90a, nvcc 13.0).
#include "experts/streamed_experts.h"

#include "device/activation.cuh"
#include "device/dependent.cuh"
#include "experts/streamed_choice.cuh"
#include "linear/streamed_input.cuh"
#include "linear/streamed_tiles.cuh"

namespace nanolith::cuda {

namespace {

constexpr int kMostRows = 4;

// Gate and up: a tile is four rows of W_gate of a pair's expert and the rows of W_up with the same numbers. First come
// all tiles of pair 0, then those of pair 1, and so on.
struct GateUpChunks {
    const ChunkMap* map;
    const int32_t* experts;  // [pairs] in shared memory
    int size;
    int tiles_of_pair;

    [[nodiscard]] __device__ int chunks_per_tile() const { return chunks_of(size); }
    __device__ void fetch(int tile, int chunk, std::byte* to, uint64_t* filled) const {
        tma_load_upper(&map->map, to, filled, chunk * kLinesOfChunk, tile % tiles_of_pair * map->tile_rows,
                       2 * experts[tile / tiles_of_pair]);
    }
};

// Down: a tile is eight outputs of a row, and has their weights in each of the row's experts, one expert's chunks after
// the other's. First come all tiles of row 0, then those of row 1, and so on.
struct DownChunks {
    const ChunkMap* map;
    const int32_t* experts;  // [pairs] in shared memory
    int size;
    int tiles_of_row;
    int top_k;

    [[nodiscard]] __device__ int chunks_per_tile() const { return top_k * chunks_of(size); }
    [[nodiscard]] __device__ int pair(int tile, int chunk) const {
        return tile / tiles_of_row * top_k + chunk / chunks_of(size);
    }
    __device__ void fetch(int tile, int chunk, std::byte* to, uint64_t* filled) const {
        tma_load_upper(&map->map, to, filled, chunk % chunks_of(size) * kLinesOfChunk,
                       tile % tiles_of_row * map->tile_rows, experts[pair(tile, chunk)]);
    }
};

template <typename T>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    gate_up_kernel(const __grid_constant__ ChunkMap map, SharedSizes sizes, ExpertRows rows, NormedX<T> input,
                   const float* logits, Activation activation, RoutingView routing, T* inner) {
    __shared__ int32_t experts[kMostPairs];
    __shared__ float shares[kMostPairs];
    let_next_launch_begin();
    const int top_k = rows.spec.top_k;
    const int outputs = rows.spec.intermediate_size;
    const int tiles_of_pair = (outputs + kTile / 2 - 1) / (kTile / 2);
    const BlockOfTiles block(sizes, rows.rows * top_k * tiles_of_pair);
    input.prefetch_norm();
    wait_for_launches_before();
    if (block.empty()) return;
    choose_all(logits, rows, routing, experts, shares);
    auto ring = block.ring<T>(GateUpChunks{&map, experts, rows.hidden, tiles_of_pair});
    const int row_bytes = streamed_row_bytes(rows.hidden);
    input.load(StreamedRowsInShared{block.x, row_bytes});
    __syncthreads();

    const auto multiply = [&](auto& from, ChunkSums& sums) {
        const int row = from.tile() / (tiles_of_pair * top_k);
        from.multiply(block.x + row * row_bytes + from.chunk() * kChunkColumns * 2, 0, 1, sums);
    };
    const auto store = [&](int, int tile, int r, float sum, float other) {
        const int output = tile % tiles_of_pair * (kTile / 2) + r;
        if (r >= kTile / 2 || output >= outputs) return;
        const int64_t pair = tile / tiles_of_pair;
        inner[pair * outputs + output] = from_float<T>(activate(activation, sum) * other);
    };
    multiply_tiles<ChunkSums, StreamedOutput>(block, ring, 1, 0.0F, multiply, NoBase(), store);
}

// Copies the activations of all pairs [pairs, size] to shared memory.
template <typename T>
__device__ void load_pairs(const T* inner, int pairs, int size, const StreamedRowsInShared& to) {
    const int packs = chunks_of(size) * (kChunkColumns / kPack<T>);
    for (int i = static_cast<int>(threadIdx.x); i < pairs * packs; i += kStreamedThreads) {
        const int pair = i / packs;
        const int pack = i % packs;
        const bool exists = pack < size / kPack<T>;
        const auto* const from = reinterpret_cast<const uint4*>(inner + static_cast<int64_t>(pair) * size);
        to.put_eight(pair, pack, exists ? from[pack] : uint4{});
    }
}

template <typename T>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    down_kernel(const __grid_constant__ ChunkMap map, SharedSizes sizes, ExpertRows rows, const T* inner,
                RoutingView routing, float* residual) {
    __shared__ int32_t experts[kMostPairs];
    __shared__ float shares[kMostPairs];
    let_next_launch_begin();
    const int pairs = rows.rows * rows.spec.top_k;
    const int size = rows.spec.intermediate_size;
    const int tiles_of_row = (rows.hidden + kTile - 1) / kTile;
    const BlockOfTiles block(sizes, rows.rows * tiles_of_row);
    wait_for_launches_before();
    if (block.empty()) return;
    for (int pair = static_cast<int>(threadIdx.x); pair < pairs; pair += kStreamedThreads) {
        experts[pair] = routing.experts[pair];
        shares[pair] = routing.shares[pair];
    }
    __syncthreads();
    const DownChunks source{&map, experts, size, tiles_of_row, rows.spec.top_k};
    auto ring = block.ring<T>(source);
    const auto base = [&](int, int tile, int r) {
        const int output = tile % tiles_of_row * kTile + r;
        return output < rows.hidden ? residual[static_cast<int64_t>(tile / tiles_of_row) * rows.hidden + output] : 0.0F;
    };
    const float first_base = StreamedOutput().base(1, block.first, block.end, base);
    load_pairs(inner, pairs, size, StreamedRowsInShared{block.x, streamed_row_bytes(size)});
    __syncthreads();

    const auto multiply = [&, counts = static_cast<const float*>(shares)](auto& from, ChunkSums& sums) {
        const int pair = source.pair(from.tile(), from.chunk());
        const int column = from.chunk() % chunks_of(size) * kChunkColumns;
        ChunkSums of_chunk;
        from.multiply(block.x + pair * streamed_row_bytes(size) + column * 2, 0, 1, of_chunk);
        const float share = counts[pair];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums.of[0][i] += share * of_chunk.of[0][i];
            sums.of[1][i] += share * of_chunk.of[1][i];
        }
    };
    const auto store = [&](int, int tile, int r, float sum, float) {
        const int output = tile % tiles_of_row * kTile + r;
        if (output < rows.hidden) residual[static_cast<int64_t>(tile / tiles_of_row) * rows.hidden + output] = sum;
    };
    multiply_tiles<ChunkSums, StreamedOutput>(block, ring, 1, first_base, multiply, base, store);
}

// The router's launch has few tiles, so that most of its blocks end at once. Where a block of the launch before the
// router has ended too, a multiprocessor has room for two halves; more than half keeps it to one block of this launch.
SharedSizes gate_up_sizes(const ExpertRows& rows, bool half) {
    return shared_sizes(1, rows.rows, rows.hidden, half ? SharedPart::more_than_half : SharedPart::all);
}

SharedSizes down_sizes(const ExpertRows& rows, bool half) {
    return shared_sizes(1, rows.pairs(), rows.spec.intermediate_size,
                        half ? SharedPart::less_than_half : SharedPart::all);
}

}  // namespace

template <typename T>
bool streamed_experts_support(const ExpertRows& rows, bool half, const GpuFacts& gpu) {
    return gpu.major == 9 && rows.rows <= kMostRows && rows.pairs() <= kMostPairs && rows.hidden % kLineColumns == 0 &&
           rows.spec.intermediate_size % kLineColumns == 0 && gate_up_sizes(rows, half).stages >= kFewestStages &&
           down_sizes(rows, half).stages >= kFewestStages;
}

template <typename T>
Result<void> streamed_experts_gate_up(const ExpertRows& rows, const NormedRows<T>& x, const float* logits,
                                      Activation activation, const T* gate_up, const RoutingView& routing, T* inner,
                                      const StreamedLaunch& how) {
    const int outputs = rows.spec.intermediate_size;
    NL_ASSIGN(const ChunkMap map, map_chunks(gate_up, rows.hidden, outputs, 2 * rows.spec.count, 2));
    const SharedSizes sizes = gate_up_sizes(rows, how.half);
    return launch(gate_up_kernel<T>, streamed_shape(sizes, how), how.stream, map, sizes, rows, NormedX<T>{x}, logits,
                  activation, routing, inner);
}

template <typename T>
Result<void> streamed_experts_down(const ExpertRows& rows, const T* inner, const T* down, const RoutingView& routing,
                                   float* residual, const StreamedLaunch& how) {
    NL_ASSIGN(const ChunkMap map, map_chunks(down, rows.spec.intermediate_size, rows.hidden, rows.spec.count, 1));
    const SharedSizes sizes = down_sizes(rows, how.half);
    return launch(down_kernel<T>, streamed_shape(sizes, how), how.stream, map, sizes, rows, inner, routing, residual);
}

#define NL_INSTANTIATE(T)                                                                                             \
    template bool streamed_experts_support<T>(const ExpertRows&, bool, const GpuFacts&);                              \
    template Result<void> streamed_experts_gate_up(const ExpertRows&, const NormedRows<T>&, const float*, Activation, \
                                                   const T*, const RoutingView&, T*, const StreamedLaunch&);          \
    template Result<void> streamed_experts_down(const ExpertRows&, const T*, const T*, const RoutingView&, float*,    \
                                                const StreamedLaunch&);
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
