// Partial results of a row over disjoint tokens merge exactly by their log-sum-exp: in the narrow item that the plan
// chose for it or at the end of a block, always in the plan's order, so that the same plan gives the same bits.
//
// Bytes: 5 * head_dim of each partial result, written and read once, and reset to the sentinel where narrow blocks
// published it (device/publish.cuh), mostly in L2. Bound by the latency of one write and one read.
#pragma once

#include <type_traits>

#include "attention/common/base2.h"
#include "attention/common/online_softmax.cuh"
#include "attention/common/query_vector.cuh"
#include "device/dependent.cuh"
#include "device/divide.cuh"
#include "device/number.cuh"
#include "device/publish.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// Writes elements [dim, dim + 4) of the output of a row's query head.
template <typename T>
__device__ void store_output(const AttentionArguments<T>& a, int row, int head, int dim, float4 value) {
    struct alignas(4 * sizeof(T)) Four {
        T values[4];
    };
    *reinterpret_cast<Four*>(a.output + a.output_layout.offset(row, head) + dim) = {
        from_float<T>(value.x), from_float<T>(value.y), from_float<T>(value.z), from_float<T>(value.w)};
}

// Writes a row's log-sum-exp, where it is wanted; `base2` is to base 2.
template <typename T>
__device__ void store_lse(const AttentionArguments<T>& a, const HeadShape& shape, int row, int head, float base2) {
    if (a.lse != nullptr) a.lse[static_cast<int64_t>(row) * shape.num_heads + head] = base2 * kLn2;
}

__device__ __forceinline__ float4 scaled(const float4& values, float factor) {
    return make_float4(values.x * factor, values.y * factor, values.z * factor, values.w * factor);
}

// Elements [dim, dim + 4) of a query head's output, merged from results over disjoint tokens: the weighted values O so
// far, and their m and d. It is the online softmax once more, over results instead of tokens.
struct Merged {
    float4 output = make_float4(0, 0, 0, 0);
    OnlineSoftmax softmax;

    // Results whose outputs are not divided by their sums.
    template <typename Math, int kCount>
    __device__ __forceinline__ static Merged of(const float4 (&parts)[kCount],
                                                const OnlineSoftmax (&softmaxes)[kCount]) {
        Merged merged;
#pragma unroll
        for (int i = 0; i < kCount; ++i) merged.softmax.highest = fmaxf(merged.softmax.highest, softmaxes[i].highest);
        const float reference = weight_reference(merged.softmax.highest);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const float weight = Math::exp2(softmaxes[i].highest - reference);
            merged.softmax.sum = fmaf(weight, softmaxes[i].sum, merged.softmax.sum);
            merged.add_weighted(weight, parts[i]);
        }
        return merged;
    }

    // Adds partial results, whose outputs are divided by their sums; a log-sum of -infinity stands for none.
    template <int kCount>
    __device__ __forceinline__ void add(const float4 (&parts)[kCount], const float (&log_sums)[kCount]) {
        float top = softmax.highest;
#pragma unroll
        for (int i = 0; i < kCount; ++i) top = fmaxf(top, log_sums[i]);
        raise(top);
        const float reference = weight_reference(top);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const float weight = fast_exp2(log_sums[i] - reference);
            softmax.sum += weight;
            add_weighted(weight, parts[i]);
        }
    }

    // Adds what the lane (own number ^ `other`) has merged; both lanes end with the same sum.
    __device__ __forceinline__ void add_from_lane(int other) {
        raise(fmaxf(softmax.highest, __shfl_xor_sync(kAllLanes, softmax.highest, other)));
        softmax.sum += __shfl_xor_sync(kAllLanes, softmax.sum, other);
        output.x += __shfl_xor_sync(kAllLanes, output.x, other);
        output.y += __shfl_xor_sync(kAllLanes, output.y, other);
        output.z += __shfl_xor_sync(kAllLanes, output.z, other);
        output.w += __shfl_xor_sync(kAllLanes, output.w, other);
    }

  private:
    __device__ __forceinline__ void raise(float top) {
        output = scaled(output, softmax.raise<FastMath>(top));
    }

    __device__ __forceinline__ void add_weighted(float weight, const float4& part) {
        output.x = fmaf(weight, part.x, output.x);
        output.y = fmaf(weight, part.y, output.y);
        output.z = fmaf(weight, part.z, output.z);
        output.w = fmaf(weight, part.w, output.w);
    }
};

// Publishes elements [dim, dim + 4) of a vector's partial result; `index`: the vector's in PartialView.
template <typename T>
__device__ __forceinline__ void publish_partial(const AttentionArguments<T>& a, const HeadShape& shape, int kv_head,
                                                int index, int dim, const float4& output, float log_sum) {
    const int64_t quad = ((kv_head * a.partial.capacity + index) * shape.head_dim + dim) / 4;
    publish(reinterpret_cast<float4*>(a.partial.outputs) + quad, output);
    publish(a.partial.sums + quad, log_sum);
}

// The partial results of one query head of a row group, elements [dim, dim + 4): one thread reads and merges them.
struct PartialList {
    float4* outputs;         // the elements of the query head, for a row group whose first vector has index 0
    float* sums;             // likewise
    const int32_t* indices;  // of the row group's first vector, for each partial result
    int count;
    int narrow_capacity;  // PartialView: partial results with lower indices are published with sentinels
    int quads;            // elements of a head / 4
    int quad;             // dim / 4

    template <typename T>
    __device__ __forceinline__ PartialList(const AttentionArguments<T>& a, const HeadShape& shape, int first_partial,
                                           int num_partials, int kv_head, int head, int dim)
        : indices(a.work.partials + first_partial),
          count(num_partials),
          narrow_capacity(a.partial.narrow_capacity),
          quads(shape.head_dim / 4),
          quad(dim / 4) {
        const int64_t first = (kv_head * a.partial.capacity + head) * quads;
        outputs = reinterpret_cast<float4*>(a.partial.outputs) + first + quad;
        sums = a.partial.sums + first;
    }

    __device__ __forceinline__ float4* output(int index) const { return outputs + index * quads; }
    __device__ __forceinline__ float* log_sum(int index) const {
        return sums + (index * quads + (index < narrow_capacity ? quad : 0));
    }
};

// kCount partial results of a list, in a thread's registers. Each element is consumed by exactly one thread.
template <int kCount>
struct PartialBatch {
    int indices[kCount];  // -1: the list has no more
    float4 outputs[kCount];
    float log_sums[kCount];

    // Looks up the indices of list elements first, first + step, ...
    __device__ __forceinline__ void find(const PartialList& list, int first, int step = 1) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int at = first + i * step;
            indices[i] = at < list.count ? list.indices[at] : -1;
        }
    }

    // Reads them, published or not. The loads are in flight together.
    __device__ __forceinline__ void read(const PartialList& list) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            outputs[i] = make_float4(0, 0, 0, 0);
            log_sums[i] = -INFINITY;
            if (indices[i] < 0) continue;
            outputs[i] = load_relaxed(list.output(indices[i]));
            log_sums[i] = load_relaxed(list.log_sum(indices[i]));
        }
    }

    __device__ __forceinline__ bool all_published() const {
        bool all = true;
#pragma unroll
        for (int i = 0; i < kCount; ++i) all = all && is_published(outputs[i]) && is_published(log_sums[i]);
        return all;
    }

    // Adds them to `merged` and resets to the sentinel what was published.
    __device__ __forceinline__ void consume(const PartialList& list, Merged& merged) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (indices[i] < 0 || indices[i] >= list.narrow_capacity) continue;
            reset_to_sentinel(list.output(indices[i]));
            reset_to_sentinel(list.log_sum(indices[i]));
        }
        merged.add(outputs, log_sums);
    }
};

// Adds the list's partial results first, first + step, ..., each as soon as it is published. `wait`: whether the thread
// must still wait for the launches before this one; false afterwards.
template <int kAtOnce>
__device__ __forceinline__ void add_partials(const PartialList& list, int first, int step, bool& wait, Merged& merged) {
#pragma unroll 1
    for (; first < list.count; first += kAtOnce * step) {
        PartialBatch<kAtOnce> batch;
        batch.find(list, first, step);
        if (wait) wait_for_launches_before();
        wait = false;
        do {
            batch.read(list);
        } while (!batch.all_published());
        batch.consume(list, merged);
    }
}

template <typename T>
__device__ __forceinline__ void store_merged(const AttentionArguments<T>& a, const HeadShape& shape, int row, int head,
                                             int dim, const Merged& merged) {
    using Math = std::conditional_t<std::is_same_v<T, float>, ExactMath, FastMath>;
    const float sum = merged.softmax.sum;
    store_output(a, row, head, dim, scaled(merged.output, sum == 0 ? 0.0F : Math::reciprocal(sum)));
    if (dim == 0 && a.lse != nullptr) store_lse(a, shape, row, head, merged.softmax.lse<Math>());
}

// Merges the row groups that no item merges, at a block's end: merges[first ... + count). Called by `threads` threads
// in whole warps; `thread` is the caller's number among them. Where there are more threads than results, up to 4
// threads share the partial results of each. kAtOnce: partial results that a thread reads at once. kDim: head_dim or
// more.
template <int kAtOnce, int kDim, typename T>
__device__ __forceinline__ void merge_row_groups(const AttentionArguments<T>& a, const HeadShape& shape, int kv_head,
                                                 int first, int count, int thread, int threads) {
    constexpr int kQuads = kDim / 4;
    const int heads_per_kv = shape.num_heads / shape.num_kv_heads;
    const int heads = a.head_groups.heads;
    const int results = count * heads * kQuads;
    const int shift = results * 4 <= threads ? 2 : results * 2 <= threads ? 1 : 0;
    const int sharer = thread & ((1 << shift) - 1);
    bool wait = true;
#pragma unroll 1
    for (int i = thread; (i & -kWarp) < results << shift; i += threads) {
        const int result = i >> shift;
        const int head_of_all = min(result / kQuads, count * heads - 1);
        const int index = divide_small(head_of_all, heads);
        const int head = head_of_all - index * heads;
        const Merge merge = a.work.merges[first + index];
        const int kv_group_head = merge.head_group * heads + head;  // of the heads that share the KV head
        const int dim = result % kQuads * 4;
        const bool exists = result < results && kv_group_head < heads_per_kv && dim < shape.head_dim;
        const PartialList list(a, shape, merge.first_partial, exists ? merge.num_partials : 0, kv_head, head, dim);
        Merged merged;
        add_partials<kAtOnce>(list, sharer, 1 << shift, wait, merged);
        for (int other = 1; other < 1 << shift; other *= 2) merged.add_from_lane(other);
        if (exists && sharer == 0)
            store_merged(a, shape, merge.row, kv_head * heads_per_kv + kv_group_head, dim, merged);
    }
}

}  // namespace nanolith::cuda
