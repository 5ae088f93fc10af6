// Partial results of a row over disjoint tokens merge exactly by their log-sum-exp. The block that brings a row's last
// partial result merges it: no launch of its own, and always in the plan's order, so that the same plan gives the same
// bits. A block does so once for all its items, since each step of it waits for memory.
//
// Bytes: 4 * head_dim of each partial result, written and read once, mostly in L2. Bound by the latency of two reads
// one after the other.
#pragma once

#include "attention/place.cuh"
#include "device/arrive.cuh"
#include "device/exp2.cuh"
#include "device/number.cuh"

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

    __device__ __forceinline__ void scale(float factor) {
        total *= factor;
        output = make_float4(output.x * factor, output.y * factor, output.z * factor, output.w * factor);
    }
};

// Some of a unit's partial results, of its query head `head`; the reads go on together.
template <int kCount>
struct Parts {
    float4 outputs[kCount];
    float log_sums[kCount];

    // Those from `first` on; -infinity where there are no more.
    template <typename T>
    __device__ __forceinline__ void read(const AttentionArguments<T>& a, const HeadShape& shape,
                                         const RowPartials& partials, int first, int kv_head, int head, int dim) {
        const int32_t* const places = a.work.partials + partials.first_partial;
        const int64_t begin = kv_head * a.partial.capacity + head;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            outputs[i] = make_float4(0, 0, 0, 0);
            log_sums[i] = -INFINITY;
            if (first + i >= partials.num_partials) continue;
            const int64_t place = begin + places[first + i];
            outputs[i] = __ldcg(reinterpret_cast<const float4*>(a.partial.outputs + place * shape.head_dim + dim));
            log_sums[i] = __ldcg(a.partial.sums + place);
        }
    }
    __device__ __forceinline__ void add_to(Merged& merged) const {
        merged.add(outputs, log_sums);
    }
};

// Adds a unit's partial results from `first` on.
template <int kAtOnce, typename T>
__device__ __forceinline__ void add_partials(const AttentionArguments<T>& a, const HeadShape& shape,
                                             const RowPartials& partials, int first, int kv_head, int head, int dim,
                                             Merged& merged) {
#pragma unroll 1
    for (; first < partials.num_partials; first += kAtOnce) {
        Parts<kAtOnce> parts;
        parts.read(a, shape, partials, first, kv_head, head, dim);
        parts.add_to(merged);
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

// Elements [dim, dim + 4) of one query head of a row's unit.
template <int kAtOnce, typename T>
__device__ __forceinline__ void merge_part(const AttentionArguments<T>& a, const HeadShape& shape,
                                           const RowPartials& partials, int row, int unit, int kv_head, int head,
                                           int dim) {
    Merged merged;
    add_partials<kAtOnce>(a, shape, partials, 0, kv_head, head, dim, merged);
    const int query_head = kv_head * (shape.num_heads / shape.num_kv_heads) + unit * a.units.heads + head;
    store_merged(a, shape, row, query_head, dim, merged);
}

// Units that a block has brought partial results of, in shared memory.
struct Arrivals {
    static constexpr int kMax = 192;
    int finished;
    int units[kMax];
};

// The threads that merge: all of a block.
struct WholeBlock {
    static constexpr int kAtOnce = 4;  // reads of each thread that go on together
    __device__ static int threads() { return static_cast<int>(blockDim.x); }
    __device__ static void sync() { __syncthreads(); }
    __device__ static void await_launches() {}  // that may bring partial results too
};

// Units of an item; all threads of the team call this once the item's partial results are written. `count`, the units
// that there are already, grows. row_of(i) is the item's row number i.
template <typename Team = WholeBlock, typename T, typename RowOf>
__device__ void note_arrivals(const AttentionArguments<T>& a, const AttentionItem& item, Arrivals& arrivals, int& count,
                              const RowOf& row_of) {
    const int unit = item.first_vector / a.units.heads;
    const int rows = (item.first_vector % a.units.heads + item.num_vectors + a.units.heads - 1) / a.units.heads;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < rows; i += Team::threads()) {
        arrivals.units[count + i] = row_of(i) * a.units.count + unit;
    }
    count += rows;
}

// Whether another item's units may be too many.
__device__ inline bool arrivals_full(int count, int item_rows) {
    return count + item_rows > Arrivals::kMax;
}

// Merges the units whose last partial results are among the `count` arrivals. To be called by all threads of the team.
template <typename Team = WholeBlock, typename T>
__device__ void finish_arrivals(const AttentionArguments<T>& a, const HeadShape& shape, int kv_head, Arrivals& arrivals,
                                int& count) {
    if (threadIdx.x == 0) arrivals.finished = 0;
    Team::sync();
    // A thread keeps its unit in a register while the list is rewritten: there are no more units than threads, or they
    // go in rounds of as many.
    const int threads = Team::threads();
#pragma unroll 1
    for (int first = 0; first < count; first += threads) {
        const int i = first + static_cast<int>(threadIdx.x);
        const int index = i < count ? arrivals.units[i] : -1;
        bool last = false;
        if (index >= 0) {
            int32_t* const arrived = a.partial.arrived + static_cast<int64_t>(index) * shape.num_kv_heads + kv_head;
            last = arrive_on_device(arrived) == a.work.units[index].num_arrivals - 1;
            if (last) *arrived = 0;
        }
        Team::sync();
        // At most `first` and this round's units are finished, so none that is still to come is overwritten.
        if (last) arrivals.units[atomicAdd(&arrivals.finished, 1)] = index;
        Team::sync();
    }
    const int group = shape.num_heads / shape.num_kv_heads;
    const int parts = shape.head_dim / 4;
    const int finished = arrivals.finished * a.units.heads * parts;
    if (finished > 0) Team::await_launches();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < finished; i += threads) {
        const int index = arrivals.units[i / (a.units.heads * parts)];
        const int part = i % (a.units.heads * parts);
        const int unit = index % a.units.count;
        if (unit * a.units.heads + part / parts >= group) continue;
        merge_part<Team::kAtOnce>(a, shape, a.work.units[index], index / a.units.count, unit, kv_head, part / parts,
                                  part % parts * 4);
    }
    count = 0;
}

}  // namespace nanolith::cuda
