// Attention of up to 16 query vectors a KV head on Hopper: decode.
#pragma once

#include "attention/attention.h"

namespace nanolith::cuda {

// Whether attend_narrow takes this shape on a device of compute capability `major`.x.
bool narrow_takes(const HeadShape& shape, int major);

struct NarrowLaunch {
    int blocks = 0;      // for each KV head
    bool fp8 = false;    // pages are fp8 e4m3 instead of T
    bool early = false;  // the launch in front is of this plan's wide items
};

// The narrow items of a plan whose lines have at most 16 vectors, and the merging of what no narrow item completes.
template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const HeadShape& shape, const NarrowLaunch& what,
                           cudaStream_t stream);

}  // namespace nanolith::cuda
