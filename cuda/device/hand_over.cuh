// Numbers that a block hands to another through device memory, each its own flag: a word that has not come is all ones.
// A NaN with these bits is handed over as another. Who takes a word puts the ones back, so that memory is as it was
// once all have been taken. No counters, no fences: what is waited for is one write and one read of L2.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

__device__ inline float not_come() {
    return __uint_as_float(~0U);
}
__device__ inline bool has_come(float word) {
    return __float_as_uint(word) != ~0U;
}
__device__ inline bool has_come(const float4& words) {
    return has_come(words.x) && has_come(words.y) && has_come(words.z) && has_come(words.w);
}

__device__ inline float never_all_ones(float word) {
    return __uint_as_float(min(__float_as_uint(word), ~1U));
}

__device__ inline void hand_over(float* to, float word) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(never_all_ones(word)));
}
__device__ inline void hand_over(float4* to, const float4& words) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(never_all_ones(words.x)),
                 "f"(never_all_ones(words.y)), "f"(never_all_ones(words.z)), "f"(never_all_ones(words.w)));
}

// What is there now, come or not.
__device__ inline float look(const float* from) {
    float word;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(word) : "l"(from));
    return word;
}
__device__ inline float4 look(const float4* from) {
    float4 words;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(words.x), "=f"(words.y), "=f"(words.z), "=f"(words.w)
                 : "l"(from));
    return words;
}

// By who has taken what was there.
__device__ inline void put_back(float* taken) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(taken), "f"(not_come()));
}
__device__ inline void put_back(float4* taken) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(taken), "f"(not_come()));
}

}  // namespace nanolith::cuda
