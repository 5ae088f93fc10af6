// Tiling: one block of eight warps a multiprocessor. A tile is eight weight rows, a chunk 256 columns of a tile (4
// KiB). A block has an equal share of the tiles; their chunks go to its warps in turn, each of which has a ring of
// chunks in shared memory, fills it with the tensor copy engine, a chunk a copy, and multiplies with mma.m16n8k16: the
// weights are the operand A, as they lie in memory, x is B (ChunkRing::multiply_chunk). The
// warps' sums of a tile meet in shared memory, once for every four tiles.
//
// Bytes: outputs * size * sizeof(T), each read once. Flops: 2 * rows * outputs * size. Bound by memory where matrices
// are large: the rings of a block have about 100 KiB (half) or 200 KiB under way. They are filled before the wait for
// the launches before this one, so that weights flow while those end. Where matrices are small it is bound by what
// comes after that wait: reading x takes 1 us, multiplying it with weights that are there already 0.8 us and more, most
// of which the instructions take on their way, since each launch fetches them anew. So the code is kept short, loops
// that are not the innermost are not unrolled, and what an output is added to is read before x is. Every sum is made in
// an order that depends on the shape alone. 77 to 85 registers, no spills (sm_90a, nvcc 13.0).
//
// On an H200 this streams 3.7 to 4.4 TB/s where matrices are large. Copies of 256, 512 and 1,024 bytes of a weight
// row (cp.async.bulk) gave 2.9, 3.9 and 4.1; tensor maps that ask L2 for 256 bytes instead of what is read cost 5%.
#include "linear/streamed.h"

#include "device/activation.cuh"
#include "device/dependent.cuh"
#include "linear/streamed_input.cuh"
#include "linear/streamed_tiles.cuh"

namespace nanolith::cuda {

namespace {

// ---- Where the outputs go (multiply_tiles) ------------------------------------------------------------------

template <typename Output>
struct StoreTile {
    Output* to;
    int outputs;
    __device__ void operator()(int row, int tile, int r, float sum, float) const {
        const int output = kTile * tile + r;
        if (output < outputs) to[static_cast<int64_t>(row) * outputs + output] = from_float<Output>(sum);
    }
};

// Base and store of outputs that are added to what is there.
struct AddTile {
    float* to;
    int outputs;
    __device__ float operator()(int row, int tile, int r) const {
        const int output = kTile * tile + r;
        return output < outputs ? to[static_cast<int64_t>(row) * outputs + output] : 0.0F;
    }
    __device__ void operator()(int row, int tile, int r, float sum, float) const {
        StoreTile<float>{to, outputs}(row, tile, r, sum, 0);
    }
};
template <typename Store>
__device__ NoBase base_of(const Store&) {
    return {};
}
__device__ const AddTile& base_of(const AddTile& store) {
    return store;
}

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

template <typename T, typename X, typename Store>
__global__ void __launch_bounds__(kStreamedThreads, 2)
    streamed_kernel(const __grid_constant__ ChunkMap map, int num_tiles, SharedSizes sizes, X input, Store store) {
    let_next_launch_begin();
    const BlockOfTiles block(sizes, num_tiles);
    auto ring = block.ring<T>(MatrixChunks{&map, input.rows.size}, true);
    input.prefetch_norm();
    wait_for_launches_before();
    if (block.empty()) return;
    const int x_rows = input.rows.rows;
    const auto& base = base_of(store);
    const float first_base = StreamedOutput().base(x_rows, block.first, block.end, base);
    const int row_bytes = streamed_row_bytes(input.rows.size);
    input.load(StreamedRowsInShared{block.x, row_bytes});
    __syncthreads();

    const auto multiply = [&](auto& from, ChunkSums& sums) {
        from.multiply(block.x + from.chunk() * kChunkColumns * 2, row_bytes, x_rows, sums);
    };
    multiply_tiles<ChunkSums, StreamedOutput>(block, ring, x_rows, first_base, multiply, base, store);
}

SharedSizes matrix_sizes(int rows, int size, bool half, bool alone) {
    return shared_sizes(rows, rows, size,
                        !half   ? SharedPart::all
                        : alone ? SharedPart::more_than_half
                                : SharedPart::less_than_half);
}

// Of weights [parts * outputs, size].
template <typename T, typename X, typename Store>
Result<void> launch_streamed(const T* weight, int parts, const X& input, const Store& store,
                             const StreamedLaunch& how) {
    const int size = input.rows.size;
    const int num_tiles = (store.outputs * parts + kTile - 1) / kTile;
    NL_ASSIGN(const ChunkMap map, map_chunks(weight, size, store.outputs, parts, parts));
    const SharedSizes sizes = matrix_sizes(input.rows.rows, size, how.half, how.alone);
    return launch(streamed_kernel<T, X, Store>, streamed_shape(sizes, how), how.stream, map, num_tiles, sizes, input,
                  store);
}

}  // namespace

template <typename T>
bool streamed_supports(int rows, int size, bool half, const GpuFacts& gpu) {
    return gpu.major == 9 && rows <= kStreamedRows && size % kLineColumns == 0 &&
           matrix_sizes(rows, size, half, false).stages >= kFewestStages;
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
