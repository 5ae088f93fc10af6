// Products of rows with their experts' weights, of 16-bit numbers on Hopper (multiply_grouped_wgmma in grouped.h).
//
// Tiling: a block has up to 128 pairs of one expert and 256 of its outputs (128 x 256 sums, 64 x 256 for each of two
// warpgroups), and goes through the length of the sum 64 elements at a time. A third warpgroup loads: the weights of a
// step with the copy engine, the pairs' rows, which lie anywhere, with one asynchronous copy of 16 bytes a lane. Four
// steps are in shared memory. A tile of at most 64 pairs is divided by its outputs instead.
//
// Bytes: an expert's weights once for each 128 of its pairs, a pair's row once for each 256 outputs; of both all but
// the first reading from L2. Flops: 2 * pairs * outputs * size, with pairs in sixty-fours. Bound by memory for few
// pairs an expert, by the tensor cores and L2 (85 flops a byte) for many.
#include "device/async_copy.cuh"
#include "device/dynamic_shared.cuh"
#include "device/mbarrier.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "experts/grouped.h"
#include "experts/pair_tile.cuh"
#include "runtime/launch.h"
#include "runtime/tensor_map.h"

namespace nanolith::cuda {

namespace {

constexpr int kPairs = 128;     // of a tile
constexpr int kOutputs = 256;   // of a tile
constexpr int kDepth = 64;      // elements of the sum in a stage
constexpr int kRowBytes = 128;  // of these
constexpr int kStages = 4;
constexpr int kGroup = 128;  // threads of a warpgroup
constexpr int kGroups = 2;   // that compute
constexpr int kThreads = (1 + kGroups) * kGroup;

struct Stage {
    alignas(1024) std::byte rows[kPairs * kRowBytes];
    alignas(1024) std::byte weights[kOutputs * kRowBytes];
};

struct Shared {
    Stage stages[kStages];
    uint64_t full[kStages];
    uint64_t empty[kStages];
};

// Loads all stages of a tile: the threads of one warpgroup.
template <typename T>
__device__ void load_stages(Shared& shared, const GroupedProduct<T>& product, const CUtensorMap* map,
                            const PairTile& tile, int first_output) {
    constexpr int kColumns = kRowBytes / 16;        // of a row, one for each lane
    constexpr int kRowsAtOnce = kGroup / kColumns;  // of a copy by all threads
    constexpr int kCopies = kPairs / kRowsAtOnce;   // for all rows
    constexpr int kAhead = 2;                       // stages whose copies of rows a thread has under way
    const int thread = static_cast<int>(threadIdx.x);
    const int column = thread % kColumns;
    const int first_row = thread / kColumns;
    const int copies = (tile.end - tile.first + kRowsAtOnce - 1) / kRowsAtOnce;
    const T* rows[kCopies];
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
        const int pair = min(tile.first + first_row + i * kRowsAtOnce, tile.end - 1);
        const int row = product.pairs != nullptr ? product.pairs[pair] / product.top_k : pair;
        rows[i] = product.x + static_cast<int64_t>(row) * product.size + column * 8;
    }
    const int to = first_row * kRowBytes + ((column ^ first_row) & 7) * 16;
    const int steps = (product.size + kDepth - 1) / kDepth;
    const int weight_row = tile.expert * product.outputs + first_output;
    RingPosition<kStages> position;
    RingPosition<kStages> oldest;
    const auto publish_oldest = [&] {
        fence_async_proxy();
        __syncwarp();
        if (thread % kWarp == 0) barrier_arrive(&shared.full[oldest.stage]);
        oldest.advance();
    };
    for (int step = 0; step < steps; ++step, position.advance()) {
        Stage& stage = shared.stages[position.stage];
        barrier_wait(&shared.empty[position.stage], position.parity ^ 1U, "an empty stage");
        if (thread == 0) {
            barrier_arrive_expect(&shared.full[position.stage], kOutputs * kRowBytes);
            tma_load_4d(map, stage.weights, &shared.full[position.stage], step * kDepth, weight_row);
        }
        const bool exists = step * kDepth + column * 8 < product.size;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            if (i >= copies) break;
            const T* const from = exists ? rows[i] + step * kDepth : rows[i];
            copy_async(stage.rows + to + i * kRowsAtOnce * kRowBytes, from, exists);
        }
        commit_copies();
        if (step < kAhead) continue;
        wait_for_copies<kAhead>();
        publish_oldest();
    }
    wait_for_copies<0>();
    for (int left = min(steps, kAhead); left > 0; --left) publish_oldest();
}

// One warpgroup's part of a tile: multiplies the rows of 64 pairs, from number `row` of the tile on, with the weights
// of kColumns outputs, from number `output` of the block's on, adds up the products of all stages, and writes the sums
// to y.
template <int kColumns, typename T, typename Output>
__device__ void multiply_stages(Shared& shared, const GroupedProduct<T>& product, const PairTile& tile, int row,
                                int output, int first_output, Output* y) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int steps = (product.size + kDepth - 1) / kDepth;
    Fragment<kColumns> sums;
    sums.for_each([](float& sum) { sum = 0; });
    RingPosition<kStages> position;
    int before = -1;  // the stage of the step before
    const auto release = [&](int stage) {
        if (lane == 0) barrier_arrive(&shared.empty[stage]);
    };
    for (int step = 0; step < steps; ++step, position.advance()) {
        const Stage& stage = shared.stages[position.stage];
        barrier_wait(&shared.full[position.stage], position.parity, "a stage");
        const uint64_t a = wgmma_operand(shared_address(stage.rows) + row * kRowBytes, 8 * kRowBytes);
        const uint64_t b = wgmma_operand(shared_address(stage.weights) + output * kRowBytes, 8 * kRowBytes);
        wgmma_hold(sums);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k) Wgmma<T, kColumns>::multiply_add(sums, a + 2 * k, b + 2 * k);
        wgmma_commit();
        wgmma_wait<1>();
        if (before >= 0) release(before);
        before = position.stage;
    }
    wgmma_wait<0>();
    wgmma_hold(sums);
    const int warp = static_cast<int>(threadIdx.x) % kGroup / kWarp;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int pair = tile.first + row + 16 * warp + lane / 4 + 8 * half;
        if (pair >= tile.end) continue;
        Output* const to = y + static_cast<int64_t>(pair) * product.outputs;
#pragma unroll
        for (int octet = 0; octet < kColumns / 8; ++octet) {
            const int at = first_output + output + 8 * octet + Fragment<kColumns>::first_column(lane);
            if (at >= product.outputs) break;
            struct alignas(2 * sizeof(Output)) Two {
                Output values[2];
            };
            const float2 two = sums.pair(octet, half);
            *reinterpret_cast<Two*>(to + at) = {from_float<Output>(two.x), from_float<Output>(two.y)};
        }
    }
}

template <typename T, typename Output>
__global__ void __launch_bounds__(kThreads, 1)
    grouped_wgmma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ GroupedProduct<T> product,
                         Output* y) {
    const PairTile tile = find_tile<kPairs>(product.begins, product.experts, static_cast<int>(blockIdx.y));
    if (tile.expert < 0) return;
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap();
#else
    Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared_1024());
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) {
            barrier_init(&shared.full[i], 1 + kGroup / kWarp);
            barrier_init(&shared.empty[i], kGroups * kGroup / kWarp);
        }
        fence_barrier_init();
    }
    __syncthreads();
    const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
    const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroup, 0);
    if (group == 0) {
        load_stages(shared, product, &map, tile, first_output);
    } else if (tile.end - tile.first <= kPairs / 2) {
        multiply_stages<kOutputs / 2>(shared, product, tile, 0, (group - 1) * kOutputs / 2, first_output, y);
    } else {
        multiply_stages<kOutputs>(shared, product, tile, (group - 1) * kPairs / 2, 0, first_output, y);
    }
#endif
}

}  // namespace

template <typename T, typename Output>
Result<void> multiply_grouped_wgmma(const GroupedProduct<T>& product, Output* y, cudaStream_t stream) {
    TensorBox box;
    box.type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const auto rows = static_cast<uint64_t>(product.experts) * static_cast<uint64_t>(product.outputs);
    const uint64_t row_bytes = static_cast<uint64_t>(product.size) * sizeof(T);
    const uint64_t sizes[4] = {static_cast<uint64_t>(product.size), 1, 1, rows};
    const uint32_t extents[4] = {kDepth, 1, 1, kOutputs};
    std::ranges::copy(sizes, box.sizes);
    std::ranges::copy(extents, box.extents);
    for (uint64_t& stride : box.strides) stride = row_bytes;
    NL_ASSIGN(const CUtensorMap map, make_tensor_map(product.weight, box, "experts' weights"));
    const int tiles = product.most_chosen() + product.num_pairs / kPairs;
    const dim3 grid(static_cast<unsigned>((product.outputs + kOutputs - 1) / kOutputs), static_cast<unsigned>(tiles));
    const LaunchShape shape{grid, dim3(kThreads), sizeof(Shared) + 1024};
    return launch(grouped_wgmma_kernel<T, Output>, shape, stream, map, product, y);
}

#define NL_INSTANTIATE(T, Output) \
    template Result<void> multiply_grouped_wgmma(const GroupedProduct<T>&, Output*, cudaStream_t);
NL_INSTANTIATE(__half, __half)
NL_INSTANTIATE(__half, float)
NL_INSTANTIATE(__nv_bfloat16, __nv_bfloat16)
NL_INSTANTIATE(__nv_bfloat16, float)

}  // namespace nanolith::cuda
