// The row-wise kernels of a decoder layer: RMSNorm, rotary position embedding, gated activation, type conversion. Each
// reads its row once and is bound by memory or cache bandwidth. T is the executor's dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/model_spec.h"
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

// A turn, as rotate() takes it: the cosines and sines of position * frequency, times the magnitudes where there are
// any. Angles are computed in double, so far positions are as exact as near ones.
void make_turn(std::span<const float> frequencies, std::span<const float> magnitudes, int64_t position, float* turn);

// Turns of all positions, of which those from 0 on to some point are kept.
class RotationTable {
  public:
    explicit RotationTable(RopeSpec rope) : rope_(std::move(rope)) {}

    // Keeps the turns up to `position`, included. Throws std::bad_alloc.
    void grow_to(int32_t position);
    // The turn of a position that is kept.
    [[nodiscard]] const float* row(int64_t position) const { return values_.data() + position * size(); }
    // The turn of any position: a kept one, or one made in `scratch` [head_dim].
    [[nodiscard]] const float* turn(int64_t position, float* scratch) const {
        if (position >= 0 && position < num_kept_) return row(position);
        make_turn(rope_.frequencies, rope_.magnitudes, position, scratch);
        return scratch;
    }

  private:
    [[nodiscard]] int64_t size() const { return 2 * static_cast<int64_t>(rope_.frequencies.size()); }

    RopeSpec rope_;
    std::vector<float> values_;  // [num_kept_, size()]
    int64_t num_kept_ = 0;
};

}  // namespace nanolith::cpu
