// Calls of templates with the C++ type of a DType that is known at run time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/dtype.h"
#include "base/result.h"

namespace nanolith::cuda {

// Calls visit(T()) for the type T that queries and activations of `dtype` have. Only files and KV pages have numbers of
// float8; what is computed with is never of that type.
template <typename Visit>
Result<void> with_type(DType dtype, const Visit& visit) {
    switch (dtype) {
        case DType::f16:
            return visit(__half());
        case DType::bf16:
            return visit(__nv_bfloat16());
        case DType::f32:
        case DType::f8_e4m3:  // of files and pages
            break;
    }
    return visit(float());
}

}  // namespace nanolith::cuda
