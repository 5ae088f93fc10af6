// Numbers that one block publishes to another through device memory, word by word and without a flag: a word that is
// not published yet holds a sentinel, all ones. A NaN with these bits is published as another NaN. Who consumes a word
// resets it to the sentinel, so that memory is as before once all words have been consumed. No counters, no fences: the
// consumer waits for one write and one read of L2.
//
// Wraps PTX "ld.relaxed.gpu" and "st.relaxed.gpu".
#pragma once

#include <cstdint>

namespace nanolith::cuda {

__device__ inline float sentinel() {
    return __uint_as_float(~0U);
}
__device__ inline bool is_published(float word) {
    return __float_as_uint(word) != ~0U;
}
__device__ inline bool is_published(const float4& words) {
    return is_published(words.x) && is_published(words.y) && is_published(words.z) && is_published(words.w);
}

__device__ inline float never_sentinel(float word) {
    return __uint_as_float(min(__float_as_uint(word), ~1U));
}

__device__ inline void publish(float* to, float word) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(never_sentinel(word)));
}
__device__ inline void publish(float4* to, const float4& words) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(never_sentinel(words.x)),
                 "f"(never_sentinel(words.y)), "f"(never_sentinel(words.z)), "f"(never_sentinel(words.w)));
}

// What memory holds now, perhaps still the sentinel.
__device__ inline float load_relaxed(const float* from) {
    float word;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(word) : "l"(from));
    return word;
}
__device__ inline float4 load_relaxed(const float4* from) {
    float4 words;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(words.x), "=f"(words.y), "=f"(words.z), "=f"(words.w)
                 : "l"(from));
    return words;
}

// Called by the thread that has consumed the word.
__device__ inline void reset_to_sentinel(float* consumed) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(consumed), "f"(sentinel()));
}
__device__ inline void reset_to_sentinel(float4* consumed) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(consumed), "f"(sentinel()));
}

}  // namespace nanolith::cuda
