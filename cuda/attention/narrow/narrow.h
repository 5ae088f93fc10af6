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
    bool early = false;        // otherwise: may begin while the previous launch runs
};

// Computes a plan's narrow items, of at most 16 vectors each, and merges the row groups that no narrow item merges.
template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const HeadShape& shape, const NarrowLaunch& what,
                           cudaStream_t stream);

}  // namespace nanolith::cuda
