// Attention of up to 16 query vectors a KV head on Hopper: decode.
#pragma once

#include "attention/attention.h"
#include "attention/common/projected_rows.h"

namespace nanolith::cuda {

// Whether attend_narrow takes this shape on a device of compute capability `major`.x.
bool narrow_supports(const HeadShape& shape, int major);

struct NarrowLaunch {
    int blocks = 0;             // for each KV head
    bool fp8 = false;           // pages are fp8 e4m3 instead of T
    bool beside_wide = false;   // the previous launch of the stream is that of this plan's wide items
    bool early = false;         // otherwise: may begin while the previous launches run
    void* append_to = nullptr;  // the pages, where the launch writes the rows' keys and values to them; else null
};

// Whether attend_narrow may append with such heads. (Registers are too few for larger ones.)
constexpr bool narrow_appends(int head_dim, bool fp8) {
    return !fp8 && (head_dim <= 64 || head_dim == 128);
}

// Computes a plan's narrow items, of at most 16 vectors each, and merges the row groups that no narrow item merges.
// A launch that appends (plan/appending.h) reads `projected`, and its queries are as the projection gives them, too: it
// adds the bias to queries, keys and values, normalises queries and keys, rotates the keys, writes keys and values to
// the pages, and then attends. Others don't read `projected`.
template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const ProjectedRows<T>& projected,
                           const HeadShape& shape, const NarrowLaunch& what, cudaStream_t stream);

}  // namespace nanolith::cuda
