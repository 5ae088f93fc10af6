// Attention of up to 16 query vectors a KV head on Hopper: decode.
#pragma once

#include "attention/attention.h"

namespace nanolith::cuda {

// Whether attend_narrow takes this shape on a device of compute capability `major`.x.
bool narrow_takes(const HeadShape& shape, int major);

// The narrow items of a plan whose lines have at most 16 vectors. `fp8`: pages are fp8 e4m3 instead of T.
template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const HeadShape& shape, int blocks, bool fp8,
                           cudaStream_t stream);

}  // namespace nanolith::cuda
