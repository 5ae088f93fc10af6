// The row-wise kernels of a decoder layer: RMSNorm, rotary position embedding, gated activation, type conversion. Each
// reads its row once and is bound by memory or cache bandwidth. T is the executor's dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/convert.h"

namespace nanolith::cpu {

// y[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i] (Zhang and Sennrich, Root Mean Square Layer Normalization).
// y may be x.
void rms_norm(const float* x, const float* weight, int64_t size, float epsilon, float* y);
void rms_norm(const float* x, const float* weight, int64_t size, float epsilon, BFloat16* y);

// h[i] = silu(gate[i]) * up[i] with silu(x) = x / (1 + e^-x).
void silu_mul(const float* gate, const float* up, int64_t size, float* h);
void silu_mul(const float* gate, const float* up, int64_t size, BFloat16* h);

// h[i] = gelu(gate[i]) * up[i] with gelu(x) = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
void gelu_tanh_mul(const float* gate, const float* up, int64_t size, float* h);
void gelu_tanh_mul(const float* gate, const float* up, int64_t size, BFloat16* h);

// x[i] = cap * tanh(x[i] / cap).
void softcap(float* x, int64_t size, float cap);

// y[i] += x[i].
void add(const float* x, int64_t size, float* y);

// Element by element, rounding to nearest even where y is narrower. x need not be aligned.
void convert(const float* x, int64_t size, float* y);
void convert(const float* x, int64_t size, BFloat16* y);
void convert(const BFloat16* x, int64_t size, float* y);
void convert(const Half* x, int64_t size, float* y);
void convert(const Float8E4M3* x, int64_t size, float* y);
void convert(const float* x, int64_t size, Half* y);
void convert(const float* x, int64_t size, Float8E4M3* y);

// Turns each pair (x[i], x[i + dim/2]) by the angle whose cosine and sine are turn[i] and turn[i + dim/2], and
// multiplies it by `scale`.
void rotate(const float* x, const float* turn, int64_t dim, float scale, float* y);

// Cosines and sines of position * frequency, times the magnitudes, for positions from 0 on: a row is
// [head_dim/2 cosines, head_dim/2 sines].
// Angles are computed in double, so far positions are as exact as near ones.
class RotationTable {
  public:
    explicit RotationTable(RopeSpec rope) : rope_(std::move(rope)) {}

    // Makes rows up to `position`, included. Throws std::bad_alloc.
    void grow_to(int32_t position);
    [[nodiscard]] const float* row(int64_t position) const {
        return values_.data() + static_cast<size_t>(position) * 2 * rope_.frequencies.size();
    }

  private:
    RopeSpec rope_;
    std::vector<float> values_;
};

}  // namespace nanolith::cpu
