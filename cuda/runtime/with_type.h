// From a DType that is known at run time to the C++ type that templates need.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/dtype.h"
#include "base/result.h"

namespace nanolith::cuda {

// Calls visit(T()) for the type T of activations of `dtype`. Activations are never float8: only weights in files and KV
// pages are.
template <typename Visit>
Result<void> with_type(DType dtype, const Visit& visit) {
    switch (dtype) {
        case DType::f16:
            return visit(__half());
        case DType::bf16:
            return visit(__nv_bfloat16());
        case DType::f32:
        case DType::f8_e4m3:  // never that of activations
            break;
    }
    return visit(float());
}

}  // namespace nanolith::cuda
