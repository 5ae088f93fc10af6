// Attention of up to 16 query vectors a KV head on Hopper: decode.
#pragma once

#include "attention/attention.h"

namespace nanolith::cuda {

// Whether attend_narrow takes this shape on a device of compute capability `major`.x.
bool narrow_supports(const HeadShape& shape, int major);

struct NarrowLaunch {
    int blocks = 0;            // for each KV head
    bool fp8 = false;          // pages are fp8 e4m3 instead of T
    bool beside_wide = false;  // the previous launch of the stream is that of this plan's wide items
    bool early = false;        // otherwise: may begin while the previous launches run
    bool appends = false;      // writes the rows' keys and values to the pages
};

// Whether attend_narrow may append with such heads. (Registers are too few for larger ones.)
constexpr bool narrow_appends(int head_dim, bool fp8) {
    return !fp8 && (head_dim <= 64 || head_dim == 128);
}

// Computes a plan's narrow items, of at most 16 vectors each, and merges the row groups that no narrow item merges.
// `projected` is read where the launch appends: then it first adds the bias to queries, keys and values, normalises
// queries and keys, and rotates the keys.
template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const ProjectedRows<T>& projected,
                           const HeadShape& shape, const NarrowLaunch& what, cudaStream_t stream);

}  // namespace nanolith::cuda
