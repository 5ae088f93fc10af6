// Stands in for cuda/device/publish.cuh: blocks run one after the other, so a word is published or never will be.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace nanolith::cuda {

inline float sentinel() {
    return __uint_as_float(~0U);
}
inline bool is_published(float word) {
    return __float_as_uint(word) != ~0U;
}
inline bool is_published(const float4& words) {
    return is_published(words.x) && is_published(words.y) && is_published(words.z) && is_published(words.w);
}

inline void publish(float* to, float word) {
    *to = __uint_as_float(min(__float_as_uint(word), ~1U));
}
inline void publish(float4* to, const float4& words) {
    const float from[] = {words.x, words.y, words.z, words.w};
    for (int i = 0; i < 4; ++i) publish(reinterpret_cast<float*>(to) + i, from[i]);
}

inline float load_relaxed(const float* from) {
    if (is_published(*from)) return *from;
    std::fprintf(stderr, "cuda_host: block (%u, %u) waits for what no block before it publishes\n", blockIdx.x,
                 blockIdx.y);
    std::abort();
}
inline float4 load_relaxed(const float4* from) {
    const auto* const words = reinterpret_cast<const float*>(from);
    return make_float4(load_relaxed(words), load_relaxed(words + 1), load_relaxed(words + 2), load_relaxed(words + 3));
}

inline void reset_to_sentinel(float* consumed) {
    *consumed = sentinel();
}
inline void reset_to_sentinel(float4* consumed) {
    *consumed = make_float4(sentinel(), sentinel(), sentinel(), sentinel());
}

}  // namespace nanolith::cuda
