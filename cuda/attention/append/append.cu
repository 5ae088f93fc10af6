// A group of lanes for each head of each row, the row along the grid's x, the heads along its y. A lane holds pairs i,
// i + head_dim / 2 in registers: with packed accesses 16 bytes of either half, so that a warp has four heads of 128
// 16-bit elements; else four single pairs. Bytes: each element read and written once; bound by the launch for few rows
// and by memory for many.
#include "attention/append/append.h"

#include <cuda_fp8.h>

#include <bit>
#include <type_traits>

#include "backend/backend.h"
#include "device/dependent.cuh"
#include "device/number.cuh"
#include "device/prefetch.cuh"
#include "device/reduce.cuh"
#include "device/rope.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 128;

// Element pairs of one head in a lane's registers: runs of Run elements, at most `Runs` of them. Run j of lane l of the
// `lanes` lanes that the head has begins at element (l + j * lanes) * Run of either half.
template <int Run, int Runs>
struct HeadPairs {
    float low[Runs][Run] = {};
    float high[Runs][Run] = {};

    // Calls visit(first element of the run, low, high) for the runs that the lane has of `half` elements.
    template <typename Visit>
    __device__ void for_runs(int half, int lane, int lanes, const Visit& visit) {
#pragma unroll
        for (int j = 0; j < Runs; ++j) {
            const int first = (lane + j * lanes) * Run;
            if (first < half) visit(first, low[j], high[j]);
        }
    }
};

// The sum over the `lanes` lanes of a group, a power of two; all lanes of the warp take part.
__device__ inline float group_sum(float value, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
}

template <int N>
__device__ void multiply(float (&values)[N], float scale, const float* weights) {
    float factors[N];
    load_values(weights, factors);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= scale * factors[i];
}

template <typename T, int N>
__device__ void add(float (&values)[N], const T* vector) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += to_float(vector[i]);
}

template <int N>
__device__ void rotate(float (&low)[N], float (&high)[N], const float* frequencies, const float* magnitudes,
                       int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float2 rotation = rope_rotation(position, frequencies[i], magnitudes != nullptr ? magnitudes[i] : 1.0F);
        const float x = low[i];
        low[i] = x * rotation.x - high[i] * rotation.y;
        high[i] = high[i] * rotation.x + x * rotation.y;
    }
}

// Multiplies by the factor and writes.
template <typename P, int N>
__device__ void store_scaled(P* to, float (&values)[N], float factor) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= factor;
    if constexpr (std::is_same_v<P, __nv_fp8_e4m3>) {
        P numbers[N];
#pragma unroll
        for (int i = 0; i < N; ++i) numbers[i].__x = __nv_cvt_float_to_fp8(values[i], __NV_SATFINITE, __NV_E4M3);
        if constexpr (N == sizeof(uint2)) {
            uint2 raw;
            memcpy(&raw, numbers, sizeof raw);
            *reinterpret_cast<uint2*>(to) = raw;
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) to[i] = numbers[i];
        }
    } else {
        store_values(to, values);
    }
}

// Where a lane's head of its row lies, and what becomes of it.
enum class Part { none, query, key, value };

template <typename T>
__device__ const T* head_address(const AppendArguments<T>& a, const HeadShape& shape, int row, int head, Part part) {
    if (part == Part::query) return a.queries + a.query_layout.offset(row, head);
    const int kv_head = (head - shape.num_heads) % shape.num_kv_heads;
    if (part == Part::key) return a.projected.keys + a.projected.key_layout.offset(row, kv_head);
    return a.projected.values + a.projected.value_layout.offset(row, kv_head);
}

// Prefetches what all rows need and no launch of a step writes: the norms' weights and the rotations' frequencies.
template <typename T>
__device__ void prefetch_constants(const AppendArguments<T>& a, int head_dim) {
    const int bytes = head_dim * static_cast<int>(sizeof(float));
    prefetch_by_block(a.projected.q_norm.weight, bytes);
    prefetch_by_block(a.projected.k_norm.weight, bytes);
    prefetch_by_block(a.frequencies, bytes / 2);
    prefetch_by_block(a.magnitudes, bytes / 2);
}

// P: the pages' number format. A head has `lanes` lanes.
template <typename T, typename P, int Run, int Runs>
__global__ void __launch_bounds__(kThreads)
    append_kernel(AppendArguments<T> a, HeadShape shape, int first_head, int lanes) {
    let_next_launch_begin();
    const int row = static_cast<int>(blockIdx.x);
    const int slot = a.slots[row];
    const int position = a.frequencies != nullptr ? a.key_positions[row] : 0;
    if (gridDim.x <= kPrefetchedRows) prefetch_constants(a, shape.head_dim);
    wait_for_launches_before();
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const int head =
        first_head + static_cast<int>(blockIdx.y) * (kThreads / lanes) + static_cast<int>(threadIdx.x) / lanes;
    const int half = shape.head_dim / 2;
    Part part = Part::query;
    if (head >= shape.num_heads) part = head < shape.num_heads + shape.num_kv_heads ? Part::key : Part::value;
    if (head >= shape.num_heads + 2 * shape.num_kv_heads || (part != Part::query && slot == kNoSlot)) part = Part::none;

    HeadPairs<Run, Runs> pairs;
    const auto for_runs = [&](const auto& visit) {
        if (part != Part::none) pairs.for_runs(half, lane, lanes, visit);
    };
    const T* const from = part == Part::none ? nullptr : head_address(a, shape, row, head, part);
    for_runs([&](int first, float(&low)[Run], float(&high)[Run]) {
        load_values(from + first, low);
        load_values(from + half + first, high);
    });
    if (a.projected.bias != nullptr) {
        const T* const bias = a.projected.bias + static_cast<int64_t>(head) * shape.head_dim;
        for_runs([&](int first, float(&low)[Run], float(&high)[Run]) {
            add(low, bias + first);
            add(high, bias + half + first);
        });
    }
    const Norm norm = part == Part::query ? a.projected.q_norm : part == Part::key ? a.projected.k_norm : Norm{};
    if (a.projected.q_norm.weight != nullptr || a.projected.k_norm.weight != nullptr) {
        float squares = 0;
        for_runs([&](int, float(&low)[Run], float(&high)[Run]) {
#pragma unroll
            for (int i = 0; i < Run; ++i) squares += low[i] * low[i] + high[i] * high[i];
        });
        squares = group_sum(squares, lanes);
        if (norm.weight != nullptr) {
            const float scale = rsqrtf(squares / static_cast<float>(2 * half) + norm.epsilon);
            for_runs([&](int first, float(&low)[Run], float(&high)[Run]) {
                multiply(low, scale, norm.weight + first);
                multiply(high, scale, norm.weight + half + first);
            });
        }
    }
    if (part == Part::query) {
        T* const to = a.queries + a.query_layout.offset(row, head);
        for_runs([&](int first, float(&low)[Run], float(&high)[Run]) {
            store_values(to + first, low);
            store_values(to + half + first, high);
        });
        return;
    }
    if (part == Part::none) return;
    const bool is_key = part == Part::key;
    if (is_key && a.frequencies != nullptr) {
        for_runs([&](int first, float(&low)[Run], float(&high)[Run]) {
            rotate(low, high, a.frequencies + first, a.magnitudes != nullptr ? a.magnitudes + first : nullptr,
                   position);
        });
    }
    const int kv_head = (head - shape.num_heads) % shape.num_kv_heads;
    const int64_t page = slot / shape.page_size;
    const int64_t tile = (page * 2 + (is_key ? 0 : 1)) * shape.num_kv_heads + kv_head;
    P* const to = static_cast<P*>(a.pages) + (tile * shape.page_size + slot % shape.page_size) * shape.head_dim;
    const float factor = is_key ? a.key_factor : a.value_factor;
    for_runs([&](int first, float(&low)[Run], float(&high)[Run]) {
        store_scaled(to + first, low, factor);
        store_scaled(to + half + first, high, factor);
    });
}

bool aligned(const void* address) {
    return std::bit_cast<uintptr_t>(address) % sizeof(uint4) == 0;
}

// Whether every run of kPack<T> elements of a head's halves begins at a 16-byte aligned address.
template <typename T>
bool may_pack(const AppendArguments<T>& a, const HeadShape& shape) {
    const auto tensor = [](const T* data, const RowLayout& layout) {
        return data == nullptr || (aligned(data) && layout.all_multiples_of(kPack<T>));
    };
    return shape.head_dim % (2 * kPack<T>) == 0 && tensor(a.queries, a.query_layout) &&
           tensor(a.projected.keys, a.projected.key_layout) && tensor(a.projected.values, a.projected.value_layout) &&
           aligned(a.pages) && aligned(a.projected.q_norm.weight) && aligned(a.projected.k_norm.weight);
}

template <typename T, typename P>
Result<void> launch_append(const AppendArguments<T>& arguments, const HeadShape& shape, int first_head, int rows,
                           bool early, cudaStream_t stream) {
    const bool packed = may_pack(arguments, shape);
    const int runs = shape.head_dim / 2 / (packed ? kPack<T> : 1);
    const int lanes = packed ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(runs))) : kWarp;
    const int heads = shape.num_heads + 2 * shape.num_kv_heads - first_head;
    const int heads_per_block = kThreads / lanes;
    const LaunchShape launch_shape{
        dim3(static_cast<unsigned>(rows), static_cast<unsigned>((heads + heads_per_block - 1) / heads_per_block)),
        dim3(kThreads), 0, early};
    constexpr int kMostSingles = kMaxHeadDim / 2 / kWarp;
    const auto kernel = packed ? append_kernel<T, P, kPack<T>, 1> : append_kernel<T, P, 1, kMostSingles>;
    return launch(kernel, launch_shape, stream, arguments, shape, first_head, lanes);
}

}  // namespace

template <typename T>
Result<void> append_to_pages(const AppendArguments<T>& arguments, const HeadShape& shape, int rows, bool early,
                             cudaStream_t stream) {
    if (rows == 0) return {};
    // Queries without bias and norm need no change.
    const bool skip_queries = arguments.queries == nullptr ||
                              (arguments.projected.bias == nullptr && arguments.projected.q_norm.weight == nullptr);
    const int first_head = skip_queries ? shape.num_heads : 0;
    if constexpr (sizeof(T) == 2) {
        if (arguments.fp8) return launch_append<T, __nv_fp8_e4m3>(arguments, shape, first_head, rows, early, stream);
    }
    return launch_append<T, T>(arguments, shape, first_head, rows, early, stream);
}

template Result<void> append_to_pages(const AppendArguments<float>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> append_to_pages(const AppendArguments<__half>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> append_to_pages(const AppendArguments<__nv_bfloat16>&, const HeadShape&, int, bool, cudaStream_t);

}  // namespace nanolith::cuda
