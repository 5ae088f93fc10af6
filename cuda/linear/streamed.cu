// Tiling: one block of eight warps a multiprocessor. A tile is eight weight rows, a chunk 256 columns of a tile (4
// KiB). A block has an equal share of the tiles; their chunks go to its warps in turn, each of which has a ring of
// chunks in shared memory, fills it with the tensor copy engine, a chunk a copy, and multiplies with mma.m16n8k16: x is
// the operand A, eight of whose 16 rows are used, the weights are B. The warps' sums of a tile meet in shared memory,
// once for every four tiles.
//
// Bytes: outputs * size * sizeof(T), each read once. Flops: 2 * rows * outputs * size. Bound by memory: the rings of a
// block have about 100 KiB (half) or 200 KiB under way. They are filled before the wait for the launches before this
// one, so that weights flow while those end. Every sum is made in an order that depends on the shape alone. 73 to
// 75 registers, no spills (sm_90a, nvcc 13.0).
//
// On an H200 this streams 3.7 to 4.4 TB/s where matrices are large. Copies of 256, 512 and 1,024 bytes of a weight
// row (cp.async.bulk) gave 2.9, 3.9 and 4.1; tensor maps that ask L2 for 256 bytes instead of what is read cost 5%.
#include "linear/streamed.h"

#include <type_traits>

#include "device/activation.cuh"
#include "device/dependent.cuh"
#include "device/dynamic_shared.cuh"
#include "linear/chunk_ring.cuh"
#include "linear/streamed_input.cuh"
#include "runtime/launch.h"
#include "runtime/tensor_map.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = kStreamedWarps * kWarp;
constexpr int kGroup = 4;  // tiles between two barriers of the block

// ---- Shared memory of a block: chunks of all rings, x, partials, barriers of all rings ----------------------

struct SharedSizes {
    int stages = 0;    // of each warp's ring: a chunk and a barrier each
    int x = 0;         // bytes of [rows] rows of activations
    int partials = 0;  // bytes of [2][kGroup, warps, rows, kTile] float, the warps' sums of a group of tiles
    [[nodiscard]] __host__ __device__ int chunks() const { return kStreamedWarps * stages * kChunkBytes; }
    [[nodiscard]] __host__ __device__ int barriers() const { return kStreamedWarps * stages * 8; }
    [[nodiscard]] int bytes() const { return kAlignment + chunks() + x + partials + barriers(); }

    static constexpr int kAlignment = 1024;  // of the chunks
};

// A multiprocessor of Hopper has 228 KiB, of which the system takes 1 KiB a block. Static arrays take less than 1 KiB.
constexpr int kSharedOfMultiprocessor = 228 * 1024;
constexpr int kOutsideDynamic = 2 * 1024;
constexpr int kFewestStages = 2;
constexpr int kMostStages = 8;

SharedSizes shared_sizes(int rows, int size, bool half) {
    SharedSizes sizes;
    sizes.x = rows * streamed_row_bytes(size);
    sizes.partials = 2 * kGroup * kStreamedWarps * rows * kTile * static_cast<int>(sizeof(float));
    const int limit = kSharedOfMultiprocessor / (half ? 2 : 1) - kOutsideDynamic;
    const int stages =
        (limit - SharedSizes::kAlignment - sizes.x - sizes.partials) / (kStreamedWarps * (kChunkBytes + 8));
    sizes.stages = stages < kMostStages ? stages : kMostStages;
    return sizes;
}

// ---- Where the outputs go: `sum` is of row `r` of the tile, `other` of row r ^ 4 ------------------------------

template <typename Output>
struct StoreTile {
    Output* to;
    int outputs;
    __device__ void operator()(int row, int tile, int r, float sum, float) const {
        const int output = kTile * tile + r;
        if (output < outputs) to[static_cast<int64_t>(row) * outputs + output] = from_float<Output>(sum);
    }
};

struct AddTile {
    float* to;
    int outputs;
    __device__ void operator()(int row, int tile, int r, float sum, float) const {
        const int output = kTile * tile + r;
        if (output < outputs) to[static_cast<int64_t>(row) * outputs + output] += sum;
    }
};

// Rows 0 to 3 of a tile are of gate, rows 4 to 7 of up.
template <typename T>
struct GateTile {
    T* to;
    int outputs;
    Activation activation;
    __device__ void operator()(int row, int tile, int r, float sum, float other) const {
        const int output = kTile / 2 * tile + r;
        if (r < kTile / 2 && output < outputs) {
            to[static_cast<int64_t>(row) * outputs + output] = from_float<T>(activate(activation, sum) * other);
        }
    }
};

// ---- The product --------------------------------------------------------------------------------------------

// Writes the warp's sums of a tile to partials [warps, x_rows, kTile].
__device__ void write_partials(const float (&sums)[2][4], int x_rows, float* partials) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int row = lane / 4;
    if (row >= x_rows) return;
    auto* const to = reinterpret_cast<float2*>(partials + (warp * x_rows + row) * kTile + lane % 4 * 2);
    *to = make_float2(sums[0][0] + sums[1][0], sums[0][1] + sums[1][1]);
}

// Adds the warps' partials [kGroup, warps, x_rows, kTile] of the tiles from `first` on, and stores those before `end`.
// All lanes of a warp take part or none, since a row has kGroup * kTile sums.
template <typename Store>
__device__ void store_group(const float* partials, int x_rows, int first, int end, const Store& store) {
    static_assert(kGroup * kTile % kWarp == 0 && kThreads >= kGroup * kTile * kStreamedRows);
    const int thread = static_cast<int>(threadIdx.x);
    const int r = thread % kTile;
    const int tile = thread / kTile % kGroup;
    const int row = thread / (kTile * kGroup);
    if (row >= x_rows) return;
    float sum = 0;
    if (first + tile < end) {
#pragma unroll
        for (int w = 0; w < kStreamedWarps; ++w) {
            sum += partials[((tile * kStreamedWarps + w) * x_rows + row) * kTile + r];
        }
    }
    const float other = __shfl_xor_sync(kAllLanes, sum, kTile / 2);
    if (first + tile < end) store(row, first + tile, r, sum, other);
}

template <typename T, typename X, typename Store>
__global__ void __launch_bounds__(kThreads, 2)
    streamed_kernel(const __grid_constant__ ChunkMap map, int num_tiles, SharedSizes sizes, X input, Store store) {
    let_next_launch_begin();
    std::byte* const chunks = dynamic_shared_1024();
    std::byte* const x = chunks + sizes.chunks();
    auto* const partials = reinterpret_cast<float*>(x + sizes.x);
    auto* const filled = reinterpret_cast<uint64_t*>(x + sizes.x + sizes.partials);
    const auto first_of = [&](unsigned block) {
        return static_cast<int>(static_cast<int64_t>(num_tiles) * block / gridDim.x);
    };
    const int first = first_of(blockIdx.x);
    const int end = first_of(blockIdx.x + 1);
    const int ring_first = static_cast<int>(threadIdx.x) / kWarp * sizes.stages;
    ChunkRing<T> ring(chunks + ring_first * kChunkBytes, filled + ring_first, sizes.stages, map, input.rows.size, first,
                      end);
    input.prefetch_norm();
    wait_for_launches_before();
    input.load(x);
    __syncthreads();

    const int x_rows = input.rows.rows;
    const int tile_floats = kStreamedWarps * x_rows * kTile;
    int buffer = 0;  // a warp may write the next group's partials while others still read this group's
    for (int group = first; group < end; group += kGroup) {
        float* const mine = partials + buffer * kGroup * tile_floats;
        for (int tile = group; tile < min(group + kGroup, end); ++tile) {
            float sums[2][4] = {};
            while (ring.tile() == tile) ring.multiply(x, x_rows, sums);
            write_partials(sums, x_rows, mine + (tile - group) * tile_floats);
        }
        __syncthreads();
        store_group(mine, x_rows, group, end, store);
        buffer ^= 1;
    }
}

template <typename T>
Result<ChunkMap> map_chunks(const T* weight, int size, int outputs, int parts) {
    constexpr auto kType =
        std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const auto row_bytes = static_cast<uint64_t>(size) * sizeof(T);
    const TensorBox tensor{
        .type = kType,
        .sizes = {kLineColumns, static_cast<uint64_t>(size) / kLineColumns, static_cast<uint64_t>(outputs),
                  static_cast<uint64_t>(parts)},
        .strides = {128, row_bytes, row_bytes * static_cast<uint64_t>(outputs)},
        .extents = {kLineColumns, kChunkColumns / kLineColumns, static_cast<uint32_t>(kTile / parts),
                    static_cast<uint32_t>(parts)},
    };
    NL_ASSIGN(const CUtensorMap map, make_tensor_map(weight, tensor, "weights"));
    return ChunkMap{map, kTile / parts};
}

// Of weights [parts * outputs, size].
template <typename T, typename X, typename Store>
Result<void> launch_streamed(const T* weight, int parts, const X& input, const Store& store,
                             const StreamedLaunch& how) {
    const int size = input.rows.size;
    const int num_tiles = (store.outputs * parts + kTile - 1) / kTile;
    NL_ASSIGN(const ChunkMap map, map_chunks(weight, size, store.outputs, parts));
    const SharedSizes sizes = shared_sizes(input.rows.rows, size, how.half);
    const auto blocks = static_cast<unsigned>(num_tiles < how.multiprocessors ? num_tiles : how.multiprocessors);
    const LaunchShape shape{dim3(blocks), dim3(kThreads), static_cast<size_t>(sizes.bytes()), how.early};
    return launch(streamed_kernel<T, X, Store>, shape, how.stream, map, num_tiles, sizes, input, store);
}

}  // namespace

template <typename T>
bool streamed_supports(int rows, int size, bool half, const GpuFacts& gpu) {
    return gpu.major == 9 && rows <= kStreamedRows && size % kLineColumns == 0 &&
           shared_sizes(rows, size, half).stages >= kFewestStages;
}

template <typename T, typename Output>
Result<void> streamed_normed(const NormedRows<T>& x, const T* weight, int outputs, Output* to,
                             const StreamedLaunch& how) {
    return launch_streamed(weight, 1, NormedX<T>{x}, StoreTile<Output>{to, outputs}, how);
}

template <typename T>
Result<void> streamed_gate_up(const NormedRows<T>& x, const T* gate_up, Activation activation, int outputs, T* to,
                              const StreamedLaunch& how) {
    return launch_streamed(gate_up, 2, NormedX<T>{x}, GateTile<T>{to, outputs, activation}, how);
}

template <typename T, typename Output>
Result<void> streamed(const T* x, const T* weight, int rows, int size, int outputs, Output* to,
                      const StreamedLaunch& how) {
    return launch_streamed(weight, 1, PlainX<T>{{x, rows, size}}, StoreTile<Output>{to, outputs}, how);
}

template <typename T>
Result<void> streamed_add(const T* x, const T* weight, int rows, int size, int outputs, float* residual,
                          const StreamedLaunch& how) {
    return launch_streamed(weight, 1, PlainX<T>{{x, rows, size}}, AddTile{residual, outputs}, how);
}

#define NL_INSTANTIATE_OUTPUT(T, Output)                                                                        \
    template Result<void> streamed_normed(const NormedRows<T>&, const T*, int, Output*, const StreamedLaunch&); \
    template Result<void> streamed(const T*, const T*, int, int, int, Output*, const StreamedLaunch&);
#define NL_INSTANTIATE(T)                                                                                 \
    template bool streamed_supports<T>(int, int, bool, const GpuFacts&);                                  \
    template Result<void> streamed_gate_up(const NormedRows<T>&, const T*, Activation, int, T*,           \
                                           const StreamedLaunch&);                                        \
    template Result<void> streamed_add(const T*, const T*, int, int, int, float*, const StreamedLaunch&); \
    NL_INSTANTIATE_OUTPUT(T, float)                                                                       \
    NL_INSTANTIATE_OUTPUT(T, T)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
