// Two 16-bit numbers in one register, the first in the lower half.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace nanolith::cuda {

__device__ inline uint32_t pack_pair(float low, float high, __half) {
    const __half2 pair = __floats2half2_rn(low, high);
    return static_cast<uint32_t>(__half_as_ushort(pair.x)) | static_cast<uint32_t>(__half_as_ushort(pair.y)) << 16;
}
__device__ inline uint32_t pack_pair(float low, float high, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return static_cast<uint32_t>(__bfloat16_as_ushort(pair.x)) | static_cast<uint32_t>(__bfloat16_as_ushort(pair.y))
                                                                     << 16;
}

__device__ inline float2 unpack_pair(uint32_t pair, __half) {
    return make_float2(__half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xffffU))),
                       __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16))));
}
__device__ inline float2 unpack_pair(uint32_t pair, __nv_bfloat16) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U));
}

}  // namespace nanolith::cuda
