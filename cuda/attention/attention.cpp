#include "attention/attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/narrow.h"
#include "attention/wide.h"

namespace nanolith::cuda {

namespace {

template <typename T>
Result<void> start_wide(const AttentionArguments<T>& a, const HeadShape& shape, int num_items, cudaStream_t stream) {
    WideArguments<T> wide;
    wide.shape = shape;
    wide.queries = a.queries;
    wide.query_row_stride = a.query_layout.row_stride;
    wide.query_head_stride = a.query_layout.head_stride;
    wide.pages = static_cast<const T*>(a.pages);
    // The map of the pool must reach every page that a step may name; more is never read.
    wide.num_pages = (int64_t{1} << 31) / (int64_t{2} * shape.num_kv_heads * shape.page_size);
    wide.rope = a.rope;
    wide.positions = a.work.positions;
    wide.page_table = a.work.page_table;
    wide.rows = a.work.queries;
    wide.spans = a.work.spans;
    wide.items = a.work.wide;
    wide.num_items = num_items;
    wide.counters = a.partial.wide_counters;
    wide.output = a.output;
    wide.output_row_stride = a.output_layout.row_stride;
    wide.output_head_stride = a.output_layout.head_stride;
    wide.lse = a.lse;
    wide.partial_outputs = a.partial.outputs;
    wide.partial_lse = a.partial.sums;
    wide.num_partial_vectors = a.partial.capacity;
    wide.scale = a.scale;
    wide.causal = a.causal;
    wide.window = a.window;
    wide.soft_cap = a.softcap;
    return attend_wide(wide, stream);
}

}  // namespace

// Wide items first: narrow items merge what both have left.
template <typename T>
Result<void> attend(const AttentionArguments<T>& arguments, const HeadShape& shape, const AttentionLaunch& what,
                    cudaStream_t stream) {
    if (what.wide_items > 0) NL_TRY(start_wide(arguments, shape, what.wide_items, stream));
    if (what.narrow_blocks > 0 && what.kernel == NarrowKernel::hopper) {
        NL_TRY(attend_narrow(arguments, shape, what.narrow_blocks, what.fp8, stream));
    } else if (what.narrow_blocks > 0) {
        NL_TRY(attend_portable(arguments, shape, what.narrow_blocks, stream));
    }
    if (what.merges > 0) NL_TRY(merge_partials(arguments, shape, what.merges, stream));
    return {};
}

template <>
Result<void> attend(const AttentionArguments<float>& arguments, const HeadShape& shape, const AttentionLaunch& what,
                    cudaStream_t stream) {
    if (what.narrow_blocks == 0) return {};
    return attend_plain(arguments, shape, what.narrow_blocks, stream);
}

template Result<void> attend(const AttentionArguments<__half>&, const HeadShape&, const AttentionLaunch&, cudaStream_t);
template Result<void> attend(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, const AttentionLaunch&,
                             cudaStream_t);

}  // namespace nanolith::cuda
