// Attention over segments of a paged KV cache: decode, prefill with history and cascades are one work list (work.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/common/shape.h"
#include "attention/plan/work.h"
#include "base/result.h"
#include "runtime/row_layout.h"

namespace nanolith::cuda {

// What every kernel reads of a plan, on the device.
struct WorkView {
    const int32_t* page_table = nullptr;
    const QueryRow* queries = nullptr;
    const Span* spans = nullptr;
    const NarrowItem* narrow = nullptr;
    const WideItem* wide = nullptr;
    const RowPartials* row_partials = nullptr;  // [rows, HeadGroups::count]
    const int32_t* partials = nullptr;
    const Merge* merges = nullptr;
};

// Memory for the partial results (O, LSE) of query vectors whose tokens are split, by the index of the partial result.
// O is divided by its sum. LSE is to base 2, and -infinity where the vector attends to no token of the split.
// - Indices below narrow_capacity: written by blocks of the narrow kernel and read by other blocks of the same launch,
//   word by word (device/publish.cuh). Each 4 elements of O have a copy of the LSE, because the thread that reads the
//   elements also resets the LSE that it read.
// - The others: written by the wide kernel and read after its launch. One LSE each, the first of the head_dim / 4.
struct PartialView {
    float* outputs = nullptr;          // [num_kv_heads, capacity, head_dim]
    float* sums = nullptr;             // [num_kv_heads, capacity, head_dim / 4]
    int32_t* wide_counters = nullptr;  // 2, zeros between launches
    int64_t capacity = 0;
    int32_t narrow_capacity = 0;
};

// How a call's attention differs from softmax(q k^T) v. The functions of attention/common/scores.cuh apply it to
// scores, for all kernels.
struct AttentionRule {
    float scale = 0;        // scores are products of queries and keys times this
    float value_scale = 1;  // outputs are weighted values times this
    float softcap = 0;      // scores become softcap * tanh(score / softcap); 0: they stay
    int32_t window = 0;     // a query at p sees positions above p - window; 0: all
    bool causal = true;     // a query at p sees positions up to p
};

template <typename T>
struct AttentionArguments {
    const T* queries = nullptr;  // not rotated
    RowLayout query_layout;
    const void* pages = nullptr;   // [num_pages, 2, num_kv_heads, page_size, head_dim] of T, or of fp8
    const float2* rope = nullptr;  // [max_position, head_dim / 2] cosine and sine; null: no rotation
    WorkView work;
    HeadGroups head_groups;
    PartialView partial;
    T* output = nullptr;
    RowLayout output_layout;
    float* lse = nullptr;  // [rows, num_heads] natural log-sum-exp, or null
    AttentionRule rule;
};

// Head dims that the kernels take: multiples of 8 up to this.
constexpr int kMaxHeadDim = 256;

// The kernels for a plan's narrow items.
enum class NarrowKernel : uint8_t {
    plain,     // float32, up to 16 vectors an item
    portable,  // tensor cores of sm_80 and newer, up to 64
    hopper,    // up to 16, beside wide items
};

// What is launched for a plan.
struct AttentionLaunch {
    NarrowKernel kernel = NarrowKernel::portable;
    int narrow_blocks = 0;  // for each KV head; 0: no narrow kernel
    int wide_items = 0;
    bool pairs = false;  // wide items are for pairs of multiprocessors
    bool fp8 = false;    // pages are fp8 e4m3; hopper alone
    bool early = false;  // may begin while the previous launch runs; hopper alone
};

// output = softmax(scale * rotated(q) K^T) V for every row of the plan, with float32 sums.
template <typename T>
Result<void> attend(const AttentionArguments<T>& arguments, const HeadShape& shape, const AttentionLaunch& what,
                    cudaStream_t stream);

// Parts of attend(): narrow items.
Result<void> attend_plain(const AttentionArguments<float>& arguments, const HeadShape& shape, int blocks,
                          cudaStream_t stream);
template <typename T>
Result<void> attend_portable(const AttentionArguments<T>& arguments, const HeadShape& shape, int blocks,
                             cudaStream_t stream);

}  // namespace nanolith::cuda
