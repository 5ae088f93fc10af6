// The DType that names a C++ type of activations.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/dtype.h"

namespace nanolith::cuda {

template <typename T>
constexpr DType kDTypeOf = DType::f32;
template <>
inline constexpr DType kDTypeOf<__half> = DType::f16;
template <>
inline constexpr DType kDTypeOf<__nv_bfloat16> = DType::bf16;

}  // namespace nanolith::cuda
