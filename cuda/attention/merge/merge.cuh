// Partial results of a row over disjoint tokens merge exactly by their log-sum-exp: in the item that the plan chose for
// it or at the end of a block, always in the plan's order, so that the same plan gives the same bits.
//
// Bytes: 5 * head_dim of each partial result, written and read once, and put back where narrow blocks hand it over,
// mostly in L2. Bound by the latency of one write and one read.
#pragma once

#include "attention/common/place.cuh"
#include "device/dependent.cuh"
#include "device/exp2.cuh"
#include "device/hand_over.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// Writes head_dim elements' share [dim, dim + 4) of a row's head.
template <typename T>
__device__ void store_output(const AttentionArguments<T>& a, int row, int head, int dim, float4 value) {
    struct alignas(4 * sizeof(T)) Four {
        T values[4];
    };
    *reinterpret_cast<Four*>(a.output + a.output_layout.offset(row, head) + dim) = {
        from_float<T>(value.x), from_float<T>(value.y), from_float<T>(value.z), from_float<T>(value.w)};
}

// `base2` is the log-sum-exp to base 2.
template <typename T>
__device__ void store_lse(const AttentionArguments<T>& a, const HeadShape& shape, int row, int head, float base2) {
    if (a.lse != nullptr) a.lse[static_cast<int64_t>(row) * shape.num_heads + head] = base2 * 0.693147180559945309F;
}

// Elements [dim, dim + 4) of a query head, merged so far.
struct Merged {
    float4 output = make_float4(0, 0, 0, 0);
    float total = 0;
    float highest = -INFINITY;

    // Results that are divided by their sums; -infinity is none.
    template <int kCount>
    __device__ __forceinline__ void add(const float4 (&parts)[kCount], const float (&log_sums)[kCount]) {
        float top = highest;
#pragma unroll
        for (int i = 0; i < kCount; ++i) top = fmaxf(top, log_sums[i]);
        const float base = top == -INFINITY ? 0.0F : top;
        scale(fast_exp2(highest - base));
        highest = top;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const float weight = fast_exp2(log_sums[i] - base);
            total += weight;
            output.x = fmaf(weight, parts[i].x, output.x);
            output.y = fmaf(weight, parts[i].y, output.y);
            output.z = fmaf(weight, parts[i].z, output.z);
            output.w = fmaf(weight, parts[i].w, output.w);
        }
    }

    // What the lane whose number differs by `other` in one bit has; both add the same.
    __device__ __forceinline__ void add_from_lane(int other) {
        const float theirs = __shfl_xor_sync(kAllLanes, highest, other);
        const float top = fmaxf(highest, theirs);
        scale(highest == -INFINITY ? 0.0F : fast_exp2(highest - top));
        highest = top;
        total += __shfl_xor_sync(kAllLanes, total, other);
        output.x += __shfl_xor_sync(kAllLanes, output.x, other);
        output.y += __shfl_xor_sync(kAllLanes, output.y, other);
        output.z += __shfl_xor_sync(kAllLanes, output.z, other);
        output.w += __shfl_xor_sync(kAllLanes, output.w, other);
    }

    __device__ __forceinline__ void scale(float factor) {
        total *= factor;
        output = make_float4(output.x * factor, output.y * factor, output.z * factor, output.w * factor);
    }
};

// Leaves elements [dim, dim + 4) of a partial result for others; `place`: that of the vector.
template <typename T>
__device__ __forceinline__ void leave_part(const AttentionArguments<T>& a, const HeadShape& shape, int kv_head,
                                           int place, int dim, const float4& output, float log_sum) {
    const int64_t quad = ((kv_head * a.partial.capacity + place) * shape.head_dim + dim) / 4;
    hand_over(reinterpret_cast<float4*>(a.partial.outputs) + quad, output);
    hand_over(a.partial.sums + quad, log_sum);
}

// Where a thread finds elements [dim, dim + 4) of a unit's partial results.
struct PartList {
    float4* outputs;  // of the unit's query head in a vector at place 0
    float* sums;
    const int32_t* places;
    int count;
    int handed_over;  // PartialView
    int quads;        // of head_dim
    int quad;         // these elements

    template <typename T>
    __device__ __forceinline__ PartList(const AttentionArguments<T>& a, const HeadShape& shape, int first_partial,
                                        int num_partials, int kv_head, int head, int dim)
        : places(a.work.partials + first_partial),
          count(num_partials),
          handed_over(a.partial.handed_over),
          quads(shape.head_dim / 4),
          quad(dim / 4) {
        const int64_t first = (kv_head * a.partial.capacity + head) * quads;
        outputs = reinterpret_cast<float4*>(a.partial.outputs) + first + quad;
        sums = a.partial.sums + first;
    }

    __device__ __forceinline__ float4* output(int place) const { return outputs + place * quads; }
    __device__ __forceinline__ float* log_sum(int place) const {
        return sums + (place * quads + (place < handed_over ? quad : 0));
    }
};

// Some of these. Each is one thread's to take.
template <int kCount>
struct Parts {
    int places[kCount];  // -1: there are no more
    float4 outputs[kCount];
    float log_sums[kCount];

    // Those from `first` on.
    __device__ __forceinline__ void find(const PartList& list, int first, int step = 1) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int at = first + i * step;
            places[i] = at < list.count ? list.places[at] : -1;
        }
    }

    // Reads them, come or not. The reads go on together.
    __device__ __forceinline__ void read(const PartList& list) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            outputs[i] = make_float4(0, 0, 0, 0);
            log_sums[i] = -INFINITY;
            if (places[i] < 0) continue;
            outputs[i] = look(list.output(places[i]));
            log_sums[i] = look(list.log_sum(places[i]));
        }
    }

    __device__ __forceinline__ bool all_come() const {
        bool all = true;
#pragma unroll
        for (int i = 0; i < kCount; ++i) all = all && has_come(outputs[i]) && has_come(log_sums[i]);
        return all;
    }

    __device__ __forceinline__ void take(const PartList& list, Merged& merged) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (places[i] < 0 || places[i] >= list.handed_over) continue;
            put_back(list.output(places[i]));
            put_back(list.log_sum(places[i]));
        }
        merged.add(outputs, log_sums);
    }
};

// Adds the list's partial results from `first` on. `wait`: for the launches before this one, which is done then.
template <int kAtOnce>
__device__ __forceinline__ void add_partials(const PartList& list, int first, int step, bool& wait, Merged& merged) {
#pragma unroll 1
    for (; first < list.count; first += kAtOnce * step) {
        Parts<kAtOnce> parts;
        parts.find(list, first, step);
        if (wait) wait_for_launches_before();
        wait = false;
        do {
            parts.read(list);
        } while (!parts.all_come());
        parts.take(list, merged);
    }
}

template <typename T>
__device__ __forceinline__ void store_merged(const AttentionArguments<T>& a, const HeadShape& shape, int row, int head,
                                             int dim, const Merged& merged) {
    const float inverse = merged.total == 0 ? 0.0F : 1.0F / merged.total;
    const float4 output = merged.output;
    store_output(a, row, head, dim,
                 make_float4(output.x * inverse, output.y * inverse, output.z * inverse, output.w * inverse));
    if (dim == 0) store_lse(a, shape, row, head, merged.total == 0 ? -INFINITY : merged.highest + log2f(merged.total));
}

// Merges units that no item does, at a block's end: merges[first ... + count). To be called by `threads` threads in
// whole warps, each with its number. Where there are many for few results, up to 4 share the reading for each. kDim:
// head_dim or more.
template <int kAtOnce, int kDim, typename T>
__device__ __forceinline__ void merge_units(const AttentionArguments<T>& a, const HeadShape& shape, int kv_head,
                                            int first, int count, int thread, int threads) {
    constexpr int kQuads = kDim / 4;
    const int group = shape.num_heads / shape.num_kv_heads;
    const int heads = a.units.heads;
    const int results = count * heads * kQuads;
    const int shift = results * 4 <= threads ? 2 : results * 2 <= threads ? 1 : 0;
    const int sharer = thread & ((1 << shift) - 1);
    bool wait = true;
#pragma unroll 1
    for (int i = thread; (i & -kWarp) < results << shift; i += threads) {
        const int result = i >> shift;
        const int head_of_all = min(result / kQuads, count * heads - 1);
        const int index = head_of_all / heads;
        const int head = head_of_all - index * heads;
        const Merge merge = a.work.merges[first + index];
        const int in_group = merge.unit * heads + head;
        const int dim = result % kQuads * 4;
        const bool there = result < results && in_group < group && dim < shape.head_dim;
        const PartList list(a, shape, merge.first_partial, there ? merge.num_partials : 0, kv_head, head, dim);
        Merged merged;
        add_partials<kAtOnce>(list, sharer, 1 << shift, wait, merged);
        for (int other = 1; other < 1 << shift; other *= 2) merged.add_from_lane(other);
        if (there && sharer == 0) store_merged(a, shape, merge.row, kv_head * group + in_group, dim, merged);
    }
}

}  // namespace nanolith::cuda
