#include "backend/cpu/norm_rope.h"

#include <cmath>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

template <int Lanes, typename T>
NL_INLINE void rms_norm_body(const float* x, const float* weight, int64_t size, float epsilon, T* y) {
    Vec<Lanes> squares{};
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) {
        const Vec<Lanes> v = load<Lanes>(x + i);
        squares += v * v;
    }
    float total = sum<Lanes>(squares);
    for (; i < size; ++i) total += x[i] * x[i];
    const float scale = 1.0F / std::sqrt(total / static_cast<float>(size) + epsilon);
    for (i = 0; i + Lanes <= size; i += Lanes)
        store<Lanes>(y + i, load<Lanes>(x + i) * scale * load<Lanes>(weight + i));
    for (; i < size; ++i) y[i] = from_float<T>(x[i] * scale * weight[i]);
}

template <int Lanes, typename T>
NL_INLINE void silu_mul_body(const float* gate, const float* up, int64_t size, T* h) {
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) {
        const Vec<Lanes> g = load<Lanes>(gate + i);
        store<Lanes>(h + i, g / (exp<Lanes>(-g) + 1.0F) * load<Lanes>(up + i));
    }
    for (; i < size; ++i) h[i] = from_float<T>(gate[i] / (std::exp(-gate[i]) + 1.0F) * up[i]);
}

// x / (1 + e^-2z) is x (1 + tanh z) / 2.
template <int Lanes, typename T>
NL_INLINE void gelu_tanh_mul_body(const float* gate, const float* up, int64_t size, T* h) {
    constexpr float kSlope = 1.5957691216057308F;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715F;
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) {
        const Vec<Lanes> g = load<Lanes>(gate + i);
        const Vec<Lanes> z = (g + kCubic * g * g * g) * kSlope;
        store<Lanes>(h + i, g / (exp<Lanes>(-z) + 1.0F) * load<Lanes>(up + i));
    }
    for (; i < size; ++i) {
        const float g = gate[i];
        h[i] = from_float<T>(g / (std::exp(-(g + kCubic * g * g * g) * kSlope) + 1.0F) * up[i]);
    }
}

// tanh z is 1 - 2 / (e^2z + 1).
template <int Lanes>
NL_INLINE void softcap_body(float* x, int64_t size, float cap) {
    const float slope = 2.0F / cap;
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes)
        store<Lanes>(x + i, cap - 2.0F * cap / (exp<Lanes>(load<Lanes>(x + i) * slope) + 1.0F));
    for (; i < size; ++i) x[i] = cap - 2.0F * cap / (std::exp(x[i] * slope) + 1.0F);
}

template <int Lanes>
NL_INLINE void add_body(const float* x, int64_t size, float* y) {
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) store<Lanes>(y + i, load<Lanes>(y + i) + load<Lanes>(x + i));
    for (; i < size; ++i) y[i] += x[i];
}

template <int Lanes, typename From, typename To>
NL_INLINE void convert_body(const From* x, int64_t size, To* y) {
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) store<Lanes>(y + i, load<Lanes>(x + i));
    for (; i < size; ++i) y[i] = from_float<To>(to_float(x[i]));
}

template <int Lanes>
NL_INLINE void rotate_body(const float* x, const float* turn, int64_t dim, float scale, float* y) {
    const int64_t half = dim / 2;
    int64_t i = 0;
    for (; i + Lanes <= half; i += Lanes) {
        const Vec<Lanes> a = load<Lanes>(x + i) * scale;
        const Vec<Lanes> b = load<Lanes>(x + half + i) * scale;
        const Vec<Lanes> cosine = load<Lanes>(turn + i);
        const Vec<Lanes> sine = load<Lanes>(turn + half + i);
        store<Lanes>(y + i, a * cosine - b * sine);
        store<Lanes>(y + half + i, b * cosine + a * sine);
    }
    for (; i < half; ++i) {
        const float a = x[i] * scale;
        const float b = x[half + i] * scale;
        y[i] = a * turn[i] - b * turn[half + i];
        y[half + i] = b * turn[i] + a * turn[half + i];
    }
}

}  // namespace

NL_DISPATCH(rms_norm, (const float* x, const float* weight, int64_t size, float epsilon, float* y),
            (x, weight, size, epsilon, y))
NL_DISPATCH(rms_norm, (const float* x, const float* weight, int64_t size, float epsilon, BFloat16* y),
            (x, weight, size, epsilon, y))
NL_DISPATCH(silu_mul, (const float* gate, const float* up, int64_t size, float* h), (gate, up, size, h))
NL_DISPATCH(silu_mul, (const float* gate, const float* up, int64_t size, BFloat16* h), (gate, up, size, h))
NL_DISPATCH(gelu_tanh_mul, (const float* gate, const float* up, int64_t size, float* h), (gate, up, size, h))
NL_DISPATCH(gelu_tanh_mul, (const float* gate, const float* up, int64_t size, BFloat16* h), (gate, up, size, h))
NL_DISPATCH(softcap, (float* x, int64_t size, float cap), (x, size, cap))
NL_DISPATCH(add, (const float* x, int64_t size, float* y), (x, size, y))
NL_DISPATCH(convert, (const float* x, int64_t size, float* y), (x, size, y))
NL_DISPATCH(convert, (const float* x, int64_t size, BFloat16* y), (x, size, y))
NL_DISPATCH(convert, (const BFloat16* x, int64_t size, float* y), (x, size, y))
NL_DISPATCH(convert, (const Half* x, int64_t size, float* y), (x, size, y))
NL_DISPATCH(convert, (const Float8E4M3* x, int64_t size, float* y), (x, size, y))
NL_DISPATCH(rotate, (const float* x, const float* turn, int64_t dim, float scale, float* y), (x, turn, dim, scale, y))

void convert(const float* x, int64_t size, Half* y) {
    for (int64_t i = 0; i < size; ++i) y[i] = to_half(x[i]);
}

void convert(const float* x, int64_t size, Float8E4M3* y) {
    for (int64_t i = 0; i < size; ++i) y[i] = to_float8_e4m3(x[i]);
}

void make_turn(std::span<const float> frequencies, std::span<const float> magnitudes, int64_t position, float* turn) {
    const size_t half = frequencies.size();
    for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
        const double magnitude = magnitudes.empty() ? 1.0 : static_cast<double>(magnitudes[i]);
        turn[i] = static_cast<float>(magnitude * std::cos(angle));
        turn[half + i] = static_cast<float>(magnitude * std::sin(angle));
    }
}

void RotationTable::grow_to(int32_t position) {
    const int64_t wanted = int64_t{position} + 1;
    if (wanted <= num_kept_) return;
    values_.resize(wanted * size());
    for (; num_kept_ < wanted; ++num_kept_)
        make_turn(rope_.frequencies, rope_.magnitudes, num_kept_, values_.data() + num_kept_ * size());
}

}  // namespace nanolith::cpu
