// Blocks come one after another: what a block waits for has come, or never will.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace nanolith::cuda {

inline float not_come() {
    return __uint_as_float(~0U);
}
inline bool has_come(float word) {
    return __float_as_uint(word) != ~0U;
}
inline bool has_come(const float4& words) {
    return has_come(words.x) && has_come(words.y) && has_come(words.z) && has_come(words.w);
}

inline void hand_over(float* to, float word) {
    *to = __uint_as_float(min(__float_as_uint(word), ~1U));
}
inline void hand_over(float4* to, const float4& words) {
    const float from[] = {words.x, words.y, words.z, words.w};
    for (int i = 0; i < 4; ++i) hand_over(reinterpret_cast<float*>(to) + i, from[i]);
}

inline float look(const float* from) {
    if (has_come(*from)) return *from;
    std::fprintf(stderr, "cuda_host: block (%u, %u) waits for what no block before it brings\n", blockIdx.x,
                 blockIdx.y);
    std::abort();
}
inline float4 look(const float4* from) {
    const auto* const words = reinterpret_cast<const float*>(from);
    return make_float4(look(words), look(words + 1), look(words + 2), look(words + 3));
}

inline void put_back(float* taken) {
    *taken = not_come();
}
inline void put_back(float4* taken) {
    *taken = make_float4(not_come(), not_come(), not_come(), not_come());
}

}  // namespace nanolith::cuda
