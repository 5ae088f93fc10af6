// Decoder models with random weights that own their memory, for tests and benchmarks.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "backend/backend.h"
#include "base/convert.h"

namespace nanolith::testing {

struct RandomShape {
    int32_t num_layers = 2;
    int32_t hidden_size = 64;
    int32_t intermediate_size = 96;
    int32_t num_heads = 4;
    int32_t num_kv_heads = 2;
    int32_t head_dim = 32;
    int32_t vocab_size = 101;
    int32_t max_context = 4096;
    bool qkv_bias = false;
    bool qk_norm = false;
    bool tied = false;
    float rope_theta = 10000.0F;
};

// xorshift64* (Vigna): quick and the same on every machine.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 0x1234567U) { next(); }
    uint64_t next() {
        state_ ^= state_ >> 12U;
        state_ ^= state_ << 25U;
        state_ ^= state_ >> 27U;
        return state_ * 0x2545F4914F6CDD1DU;
    }
    double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }             // [0, 1)
    int32_t below(int32_t bound) { return static_cast<int32_t>(uniform() * bound); }      // [0, bound)
    float centered() { return static_cast<float>(std::sqrt(12.0) * (uniform() - 0.5)); }  // mean 0, variance 1

  private:
    uint64_t state_;
};

// float32 to IEEE 754 binary16, to nearest even; for values that a half holds as a normal number or zero.
inline uint16_t float_to_half(float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    const uint32_t sign = (bits >> 16U) & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude < 0x38800000U) {  // below 2^-14: a multiple of 2^-24
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(std::fabs(value) * 0x1p24F)));
    }
    const uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13U) & 1U);
    return static_cast<uint16_t>(sign | (rounded >> 13U));
}

class RandomModel {
  public:
    ModelSpec spec;
    ModelWeights weights;

    // Weights are stored as `dtype`. Projections keep the variance of what they read; queries are a little large, so
    // that attention is far from uniform and depends on positions.
    RandomModel(const RandomShape& shape, DType dtype, uint64_t seed) : random_(seed), dtype_(dtype) {
        fill_spec(shape);
        weights.embedding = matrix(shape.vocab_size, shape.hidden_size, 1.0F);
        weights.final_norm = norm(shape.hidden_size);
        const auto fan_in = [](int32_t size) { return 1.0F / std::sqrt(static_cast<float>(size)); };
        weights.head =
            shape.tied ? weights.embedding : matrix(shape.vocab_size, shape.hidden_size, fan_in(shape.hidden_size));
        const int32_t q = shape.num_heads * shape.head_dim;
        const int32_t kv = shape.num_kv_heads * shape.head_dim;
        for (int32_t i = 0; i < shape.num_layers; ++i) {
            LayerWeights layer;
            layer.attention_norm = norm(shape.hidden_size);
            layer.q_proj = matrix(q, shape.hidden_size, 2 * fan_in(shape.hidden_size));
            layer.k_proj = matrix(kv, shape.hidden_size, fan_in(shape.hidden_size));
            layer.v_proj = matrix(kv, shape.hidden_size, fan_in(shape.hidden_size));
            if (shape.qkv_bias) {
                layer.q_bias = matrix(1, q, 0.5F);
                layer.k_bias = matrix(1, kv, 0.5F);
                layer.v_bias = matrix(1, kv, 0.5F);
            }
            if (shape.qk_norm) {
                layer.q_norm = norm(shape.head_dim, 1.5F);
                layer.k_norm = norm(shape.head_dim);
            }
            layer.o_proj = matrix(shape.hidden_size, q, fan_in(q));
            layer.mlp_norm = norm(shape.hidden_size);
            layer.gate_proj = matrix(shape.intermediate_size, shape.hidden_size, fan_in(shape.hidden_size));
            layer.up_proj = matrix(shape.intermediate_size, shape.hidden_size, fan_in(shape.hidden_size));
            layer.down_proj = matrix(shape.hidden_size, shape.intermediate_size, fan_in(shape.intermediate_size));
            weights.layers.push_back(layer);
        }
    }
    RandomModel(const RandomModel&) = delete;
    RandomModel& operator=(const RandomModel&) = delete;

    // Makes the embedding of `token` NaN, so that its keys and values are.
    void poison(int32_t token) {
        const size_t row = static_cast<size_t>(spec.hidden_size) * dtype_bytes(dtype_);
        std::memset(storage_.front().data() + static_cast<size_t>(token) * row, 0xFF, row);
    }

  private:
    void fill_spec(const RandomShape& shape) {
        spec.num_layers = shape.num_layers;
        spec.hidden_size = shape.hidden_size;
        spec.intermediate_size = shape.intermediate_size;
        spec.num_heads = shape.num_heads;
        spec.num_kv_heads = shape.num_kv_heads;
        spec.head_dim = shape.head_dim;
        spec.vocab_size = shape.vocab_size;
        spec.max_context = shape.max_context;
        spec.norm_epsilon = 1e-5F;
        spec.attention_scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
        spec.layers.resize(static_cast<size_t>(shape.num_layers));
        std::vector<float>& frequencies = spec.ropes.emplace_back().frequencies;
        for (int32_t i = 0; i < shape.head_dim / 2; ++i)
            frequencies.push_back(
                std::pow(shape.rope_theta, -2.0F * static_cast<float>(i) / static_cast<float>(shape.head_dim)));
    }

    WeightView make(int64_t rows, int64_t cols, float mean, float scale) {
        WeightView view{dtype_, rows, cols, nullptr};
        std::vector<std::byte>& bytes = storage_.emplace_back(view.bytes());
        for (size_t i = 0; i < static_cast<size_t>(rows * cols); ++i) {
            const float value = mean + scale * random_.centered();
            const uint16_t narrow = dtype_ == DType::f16 ? float_to_half(value) : to_bfloat16(value).bits;
            if (dtype_ == DType::f32)
                std::memcpy(bytes.data() + 4 * i, &value, 4);
            else
                std::memcpy(bytes.data() + 2 * i, &narrow, 2);
        }
        view.data = bytes.data();
        return view;
    }
    WeightView matrix(int64_t rows, int64_t cols, float scale) { return make(rows, cols, 0, scale); }
    WeightView norm(int64_t size, float mean = 1.0F) { return make(1, size, mean, 0.2F); }

    Random random_;
    DType dtype_;
    std::deque<std::vector<std::byte>> storage_;  // the embedding first
};

}  // namespace nanolith::testing
