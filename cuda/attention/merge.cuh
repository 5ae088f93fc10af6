// Partial results of a row over disjoint tokens merge exactly by their log-sum-exp. The block that brings a row's last
// partial result merges it: no launch of its own, and always in the plan's order, so that the same plan gives the same
// bits. A block does so once for all its items, since each step of it waits for memory.
//
// Bytes: 4 * head_dim of each partial result, written and read once, mostly in L2. Bound by the latency of two reads
// one after the other.
#pragma once

#include "attention/place.cuh"
#include "device/number.cuh"

namespace nanolith::cuda {

// Writes head_dim elements' share [dim, dim + 4) of a row's head.
template <typename T>
__device__ void store_output(const AttentionArguments<T>& a, int row, int head, int dim, float4 value) {
    T* const to = a.output + a.output_layout.offset(row, head) + dim;
    to[0] = from_float<T>(value.x);
    to[1] = from_float<T>(value.y);
    to[2] = from_float<T>(value.z);
    to[3] = from_float<T>(value.w);
}

// `base2` is the log-sum-exp to base 2.
template <typename T>
__device__ void store_lse(const AttentionArguments<T>& a, const HeadShape& shape, int row, int head, float base2) {
    if (a.lse != nullptr) a.lse[static_cast<int64_t>(row) * shape.num_heads + head] = base2 * 0.693147180559945309F;
}

// Elements [dim, dim + 4) of one query head of a row.
template <typename T>
__device__ void merge_part(const AttentionArguments<T>& a, const HeadShape& shape, int row, int unit, int kv_head,
                           int head, int dim) {
    const RowPartials partials = a.work.units[static_cast<int64_t>(row) * a.units.count + unit];
    const int32_t* const places = a.work.partials + partials.first_partial;
    const float* const sums = a.partial.sums + kv_head * a.partial.capacity + head;
    const float* const outputs = a.partial.outputs + (kv_head * a.partial.capacity + head) * shape.head_dim + dim;
    float highest = -INFINITY;
#pragma unroll 8
    for (int p = 0; p < partials.num_partials; ++p) highest = fmaxf(highest, __ldcg(sums + places[p]));
    float total = 0;
    float4 output = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int p = 0; p < partials.num_partials; ++p) {
        const int64_t place = places[p];
        const float4 part = __ldcg(reinterpret_cast<const float4*>(outputs + place * shape.head_dim));
        const float sum = __ldcg(sums + place);
        const float weight = sum == -INFINITY ? 0.0F : exp2f(sum - highest);
        total += weight;
        output.x = fmaf(weight, part.x, output.x);
        output.y = fmaf(weight, part.y, output.y);
        output.z = fmaf(weight, part.z, output.z);
        output.w = fmaf(weight, part.w, output.w);
    }
    const float inverse = total == 0 ? 0.0F : 1.0F / total;
    const int query_head = kv_head * (shape.num_heads / shape.num_kv_heads) + unit * a.units.heads + head;
    store_output(a, row, query_head, dim,
                 make_float4(output.x * inverse, output.y * inverse, output.z * inverse, output.w * inverse));
    if (dim == 0) store_lse(a, shape, row, query_head, total == 0 ? -INFINITY : highest + log2f(total));
}

// Units that a block has brought partial results of, in shared memory.
struct Arrivals {
    static constexpr int kMax = 192;
    int finished;
    int units[kMax];
};

// Units of an item; all threads of the block call this once the item's partial results are written. `count`, the units
// that there are already, grows.
template <typename T>
__device__ void note_arrivals(const AttentionArguments<T>& a, const AttentionItem& item, Arrivals& arrivals,
                              int& count) {
    const int unit = item.first_vector / a.units.heads;
    const int rows = (item.first_vector % a.units.heads + item.num_vectors + a.units.heads - 1) / a.units.heads;
    for (int i = static_cast<int>(threadIdx.x); i < rows; i += static_cast<int>(blockDim.x)) {
        arrivals.units[count + i] = a.work.queries[item.first_query + i].row * a.units.count + unit;
    }
    count += rows;
}

// Whether another item's units may be too many.
__device__ inline bool arrivals_full(int count, int item_rows) {
    return count + item_rows > Arrivals::kMax;
}

// Merges the units whose last partial results are among the `count` arrivals. To be called by all threads of a block.
template <typename T>
__device__ void finish_arrivals(const AttentionArguments<T>& a, const HeadShape& shape, int kv_head, Arrivals& arrivals,
                                int& count) {
    __threadfence();
    if (threadIdx.x == 0) arrivals.finished = 0;
    __syncthreads();
    // A thread keeps its unit in a register while the list is rewritten: there are no more units than threads, or they
    // go in rounds of as many.
    const int threads = static_cast<int>(blockDim.x);
    for (int first = 0; first < count; first += threads) {
        const int i = first + static_cast<int>(threadIdx.x);
        const int index = i < count ? arrivals.units[i] : -1;
        bool last = false;
        if (index >= 0) {
            int32_t* const arrived = a.partial.arrived + static_cast<int64_t>(index) * shape.num_kv_heads + kv_head;
            last = atomicAdd(arrived, 1) == a.work.units[index].num_arrivals - 1;
            if (last) *arrived = 0;
        }
        __syncthreads();
        // At most `first` and this round's units are finished, so none that is still to come is overwritten.
        if (last) arrivals.units[atomicAdd(&arrivals.finished, 1)] = index;
        __syncthreads();
    }
    __threadfence();
    const int group = shape.num_heads / shape.num_kv_heads;
    const int parts = shape.head_dim / 4;
    const int finished = arrivals.finished * a.units.heads * parts;
    for (int i = static_cast<int>(threadIdx.x); i < finished; i += threads) {
        const int index = arrivals.units[i / (a.units.heads * parts)];
        const int part = i % (a.units.heads * parts);
        const int unit = index % a.units.count;
        if (unit * a.units.heads + part / parts >= group) continue;
        merge_part(a, shape, index / a.units.count, unit, kv_head, part / parts, part % parts * 4);
    }
    count = 0;
}

}  // namespace nanolith::cuda
