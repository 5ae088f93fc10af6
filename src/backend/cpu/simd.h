// Vectors of floats for kernels that are written once and compiled for several instruction sets.
//
// A kernel is a template `name_body<Lanes>` over Vec<Lanes>; NL_DISPATCH makes a plain function of it that runs the
// widest version that simd_level() gives: 16 lanes on x86-64-v4 (AVX-512), 8 on x86-64-v3 (AVX2 and FMA), and 4 on
// every other x86-64 and on other architectures. All helpers are inlined, so each is compiled for its caller's
// instruction set.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/convert.h"

#define NL_INLINE inline __attribute__((always_inline))

// Before a loop of a few turns whose number is known: arrays of vectors that it walks are in registers only then.
#if defined(__clang__)
#define NL_UNROLL _Pragma("unroll")
#else
#define NL_UNROLL _Pragma("GCC unroll 8")
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define NL_TARGET_V4 \
    __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))
#define NL_TARGET_V4_VNNI \
    __attribute__((       \
        target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni")))
#define NL_TARGET_V4_BF16 \
    __attribute__((       \
        target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16")))
#define NL_TARGET_V3 __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")))
#else
#define NL_TARGET_V4_BF16
#define NL_TARGET_V4_VNNI
#define NL_TARGET_V4
#define NL_TARGET_V3
#endif

// Defines `void name params`. `args` are the names of the parameters, in parentheses.
#define NL_DISPATCH(name, params, args)         \
    NL_TARGET_V4 static void name##_v4 params { \
        name##_body<16> args;                   \
    }                                           \
    NL_TARGET_V3 static void name##_v3 params { \
        name##_body<8> args;                    \
    }                                           \
    static void name##_any params {             \
        name##_body<4> args;                    \
    }                                           \
    void name params {                          \
        switch (nanolith::cpu::simd_level()) {  \
            case nanolith::cpu::SimdLevel::v4:  \
                return name##_v4 args;          \
            case nanolith::cpu::SimdLevel::v3:  \
                return name##_v3 args;          \
            case nanolith::cpu::SimdLevel::any: \
                return name##_any args;         \
        }                                       \
    }

namespace nanolith::cpu {

enum class SimdLevel : uint8_t { any, v3, v4 };

// What this processor has, but no more than the environment variable ONEDNN_MAX_CPU_ISA allows: "SSE41", "AVX2" and
// "AVX512_CORE" give the three levels. Read once.
SimdLevel simd_level();

// Whether it multiplies bytes and adds up the products by one instruction (AVX-512 VNNI), and is allowed to:
// "AVX512_CORE_VNNI" and more. Clang's builds do not use it.
bool has_byte_products();

// Whether it multiplies bfloat16, and is allowed to: "AVX512_CORE_BF16" and "AVX512_CORE_AMX".
bool has_bfloat16_products();

// Whether it multiplies tiles of bfloat16, and is allowed to: "AVX512_CORE_AMX".
bool has_amx();

template <int Lanes>
struct SimdTypes {
    typedef float Floats __attribute__((vector_size(Lanes * 4)));
    typedef int32_t Ints __attribute__((vector_size(Lanes * 4)));
    typedef uint32_t Words __attribute__((vector_size(Lanes * 4)));
    typedef uint16_t Halves __attribute__((vector_size(Lanes * 2)));
    typedef uint8_t Bytes __attribute__((vector_size(Lanes)));
};
template <int Lanes>
using Vec = typename SimdTypes<Lanes>::Floats;
template <int Lanes>
using Ints = typename SimdTypes<Lanes>::Ints;
template <int Lanes>
using Words = typename SimdTypes<Lanes>::Words;

// Prefetches the cache lines of `Numbers` numbers into the first-level cache. A processor drops prefetches while some
// dozen lines are under way, so call this in the loop that reads other numbers, once for each line read there.
template <int Numbers, typename T>
NL_INLINE void fetch(const T* from) {
    constexpr int kOfLine = 64 / static_cast<int>(sizeof(T));
    for (int i = 0; i < Numbers; i += kOfLine) __builtin_prefetch(from + i);
}

template <int Lanes>
NL_INLINE Vec<Lanes> load(const float* from) {
    Vec<Lanes> value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

template <int Lanes>
NL_INLINE Vec<Lanes> load(const BFloat16* from) {
    typename SimdTypes<Lanes>::Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    const Words<Lanes> words = __builtin_convertvector(halves, Words<Lanes>) << 16;
    return reinterpret_cast<Vec<Lanes>>(words);
}

// Its exponent as a float32's is 112 too small, which a product mends; infinity and NaN need the highest one.
template <int Lanes>
NL_INLINE Vec<Lanes> load(const Half* from) {
    typename SimdTypes<Lanes>::Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    const Words<Lanes> words = __builtin_convertvector(halves, Words<Lanes>);
    const Words<Lanes> small = (words & 0x7FFFU) << 13;
    const Words<Lanes> magnitude = reinterpret_cast<Words<Lanes>>(reinterpret_cast<Vec<Lanes>>(small) * 0x1p112F);
    const Words<Lanes> special = (words & 0x7C00U) == 0x7C00U ? magnitude | 0x7F800000U : magnitude;
    return reinterpret_cast<Vec<Lanes>>(special | ((words & 0x8000U) << 16));
}

template <int Lanes>
NL_INLINE Vec<Lanes> load(const Float8E4M3* from) {
    typename SimdTypes<Lanes>::Bytes bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    const Words<Lanes> words = __builtin_convertvector(bytes, Words<Lanes>);
    const Words<Lanes> small = (words & 0x7FU) << 20;
    const Words<Lanes> magnitude = reinterpret_cast<Words<Lanes>>(reinterpret_cast<Vec<Lanes>>(small) * 0x1p120F);
    const Words<Lanes> special = (words & 0x7FU) == 0x7FU ? magnitude | 0x7FC00000U : magnitude;
    return reinterpret_cast<Vec<Lanes>>(special | ((words & 0x80U) << 24));
}

template <int Lanes>
NL_INLINE void store(float* to, Vec<Lanes> value) {
    std::memcpy(to, &value, sizeof(value));
}

// Rounds to nearest, ties to even; NaN stays NaN.
template <int Lanes>
NL_INLINE void store(BFloat16* to, Vec<Lanes> value) {
    const Words<Lanes> bits = reinterpret_cast<Words<Lanes>>(value);
    const Words<Lanes> rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const Words<Lanes> quiet = (bits >> 16) | 0x40U;
    const Words<Lanes> chosen = value == value ? rounded : quiet;
    const auto halves = __builtin_convertvector(chosen, typename SimdTypes<Lanes>::Halves);
    std::memcpy(static_cast<void*>(to), &halves, sizeof(halves));
}

template <int Lanes>
NL_INLINE float sum(Vec<Lanes> value) {
    if constexpr (Lanes == 1) {
        return value[0];
    } else {
        Vec<Lanes / 2> halves[2];
        std::memcpy(halves, &value, sizeof(value));
        return sum<Lanes / 2>(halves[0] + halves[1]);
    }
}

template <int Lanes>
NL_INLINE Vec<Lanes> broadcast(float value) {
    return Vec<Lanes>{} + value;
}

// e^x to about 1e-7 relative: 2^n e^r with r in [-ln 2 / 2, ln 2 / 2] and a polynomial for e^r (Taylor's to the seventh
// degree). x below -87 gives 0 or nearly so; x above 88 gives a large finite number; NaN gives NaN.
template <int Lanes>
NL_INLINE Vec<Lanes> exp(Vec<Lanes> x) {
    using V = Vec<Lanes>;
    const V low = broadcast<Lanes>(-87.3F);
    const V high = broadcast<Lanes>(88.3F);
    V clamped = x < low ? low : x;
    clamped = clamped > high ? high : clamped;
    const V magic = broadcast<Lanes>(12582912.0F);  // adding 1.5 * 2^23 rounds to an integer
    const V n = (clamped * 1.44269504F + magic) - magic;
    const V r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
    V p = r * (1.0F / 5040) + (1.0F / 720);
    p = p * r + (1.0F / 120);
    p = p * r + (1.0F / 24);
    p = p * r + (1.0F / 6);
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const V whole = x == x ? n : V{};  // NaN has no integer
    const Ints<Lanes> exponent = (__builtin_convertvector(whole, Ints<Lanes>) + 127) << 23;
    const V result = p * reinterpret_cast<V>(exponent);
    return x < low ? V{} : result;
}

}  // namespace nanolith::cpu
