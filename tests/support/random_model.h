// Decoder models with random weights that own their memory, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <numeric>
#include <vector>

#include "backend/dtype.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/weight_view.h"
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
    bool output_bias = false;  // of o_proj
    bool mlp_bias = false;
    bool post_norms = false;
    bool ordered = false;                // elements of heads are stored in a random order, which the views undo
    bool scaled = false;                 // layers' projections are 8-bit floats with scales
    std::vector<RopeSpec> ropes = {};    // empty: one, of rope_theta
    std::vector<LayerSpec> layers = {};  // empty: all the same, without a window
    std::vector<bool> dense = {};        // layers without experts, where there are experts; empty: none
    ModelSpec numbers = {};              // only its norm_offset, soft-caps, scales, activation and experts are used
};

// Frequencies theta^(-2i / head_dim).
inline std::vector<float> plain_frequencies(float theta, int32_t head_dim) {
    std::vector<float> frequencies;
    for (int32_t i = 0; i < head_dim / 2; ++i)
        frequencies.push_back(std::pow(theta, -2.0F * static_cast<float>(i) / static_cast<float>(head_dim)));
    return frequencies;
}

// A shape's numbers as a device takes them.
inline ModelSpec spec_of(const RandomShape& shape) {
    ModelSpec spec;
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
    spec.norm_offset = shape.numbers.norm_offset;
    spec.attention_softcap = shape.numbers.attention_softcap;
    spec.logit_softcap = shape.numbers.logit_softcap;
    spec.embedding_scale = shape.numbers.embedding_scale;
    spec.activation = shape.numbers.activation;
    spec.experts = shape.numbers.experts;
    spec.layers = shape.layers;
    spec.layers.resize(shape.num_layers);
    spec.ropes = shape.ropes;
    if (spec.ropes.empty()) spec.ropes.push_back({plain_frequencies(shape.rope_theta, shape.head_dim), {}});
    return spec;
}

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
    RandomModel(const RandomShape& shape, DType dtype, uint64_t seed)
        : spec(spec_of(shape)), random_(seed), dtype_(dtype) {
        weights.embedding = matrix(shape.vocab_size, shape.hidden_size, 1.0F);
        weights.final_norm = norm(shape.hidden_size);
        weights.head =
            shape.tied ? weights.embedding : matrix(shape.vocab_size, shape.hidden_size, fan_in(shape.hidden_size));
        if (shape.ordered) {
            order_.resize(shape.head_dim);
            std::iota(order_.begin(), order_.end(), 0);
            for (int32_t i = shape.head_dim; i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
        }
        for (int32_t i = 0; i < shape.num_layers; ++i) {
            LayerWeights layer;
            fill_attention(shape, layer);
            layer.mlp_norm = norm(shape.hidden_size);
            const bool is_dense = static_cast<size_t>(i) < shape.dense.size() && shape.dense[i];
            if (spec.experts.count > 0 && !is_dense) {
                fill_experts(shape, layer);
            } else {
                fill_mlp(shape, layer);
            }
            weights.layers.push_back(layer);
        }
    }
    RandomModel(const RandomModel&) = delete;
    RandomModel& operator=(const RandomModel&) = delete;

    // Makes the embedding of `token` NaN, and thereby every key and value computed from it: whatever reads these is
    // NaN.
    void poison(int32_t token) {
        const size_t row = static_cast<size_t>(spec.hidden_size) * dtype_bytes(dtype_);
        std::memset(storage_.front().data() + static_cast<size_t>(token) * row, 0xFF, row);
    }

  private:
    static float fan_in(int32_t size) { return 1.0F / std::sqrt(static_cast<float>(size)); }

    void fill_attention(const RandomShape& shape, LayerWeights& layer) {
        const int32_t q = shape.num_heads * shape.head_dim;
        const int32_t kv = shape.num_kv_heads * shape.head_dim;
        layer.attention_norm = norm(shape.hidden_size);
        layer.q_proj = projection(shape, q, shape.hidden_size, 2 * fan_in(shape.hidden_size));
        layer.k_proj = projection(shape, kv, shape.hidden_size, fan_in(shape.hidden_size));
        layer.v_proj = projection(shape, kv, shape.hidden_size, fan_in(shape.hidden_size));
        if (shape.qkv_bias) {
            layer.q_bias = matrix(1, q, 0.5F);
            layer.k_bias = matrix(1, kv, 0.5F);
            layer.v_bias = matrix(1, kv, 0.5F);
        }
        if (shape.qk_norm) {
            layer.q_norm = norm(shape.head_dim, 1.5F);
            layer.k_norm = norm(shape.head_dim);
        }
        layer.o_proj = projection(shape, shape.hidden_size, q, fan_in(q));
        if (shape.output_bias) layer.o_bias = matrix(1, shape.hidden_size, 0.5F);
        if (shape.post_norms) {
            layer.attention_post_norm = norm(shape.hidden_size);
            layer.mlp_post_norm = norm(shape.hidden_size);
        }
        for (WeightView* view :
             {&layer.q_proj, &layer.k_proj, &layer.q_bias, &layer.k_bias, &layer.q_norm, &layer.k_norm}) {
            if (view->present()) view->order = order_;
        }
    }

    void fill_mlp(const RandomShape& shape, LayerWeights& layer) {
        const int32_t inner = shape.intermediate_size;
        layer.gate_proj = projection(shape, inner, shape.hidden_size, fan_in(shape.hidden_size));
        layer.up_proj = projection(shape, inner, shape.hidden_size, fan_in(shape.hidden_size));
        layer.down_proj = projection(shape, shape.hidden_size, inner, fan_in(inner));
        if (!shape.mlp_bias) return;
        layer.gate_bias = matrix(1, inner, 0.5F);
        layer.up_bias = matrix(1, inner, 0.5F);
        layer.down_bias = matrix(1, shape.hidden_size, 0.5F);
    }

    void fill_experts(const RandomShape& shape, LayerWeights& layer) {
        const int32_t inner = spec.experts.intermediate_size;
        layer.router = matrix(spec.experts.count, shape.hidden_size, fan_in(shape.hidden_size));
        for (int32_t i = 0; i < spec.experts.count; ++i) {
            ExpertWeights expert;
            expert.gate_proj = projection(shape, inner, shape.hidden_size, fan_in(shape.hidden_size));
            expert.up_proj = projection(shape, inner, shape.hidden_size, fan_in(shape.hidden_size));
            expert.down_proj = projection(shape, shape.hidden_size, inner, 2 * fan_in(inner));
            layer.experts.push_back(expert);
        }
    }

    WeightView projection(const RandomShape& shape, int64_t rows, int64_t cols, float scale) {
        return shape.scaled ? scaled(rows, cols, scale) : matrix(rows, cols, scale);
    }

    // 8-bit floats, by turns with a scale of the matrix, of each row and of blocks that its sizes don't divide. Scales
    // have four significant bits, as the weights do, so that products are exact in every dtype that executors have.
    WeightView scaled(int64_t rows, int64_t cols, float scale) {
        WeightView view{DType::f8_e4m3, rows, cols, nullptr};
        const int64_t kind = next_scales_++ % 3;
        WeightScales& scales = view.scales;
        scales.block_rows = kind == 0 ? rows : kind == 1 ? 1 : 24;
        scales.block_cols = kind == 2 ? 20 : cols;
        scales.row_stride = (cols + scales.block_cols - 1) / scales.block_cols;
        std::vector<std::byte>& factors = storage_.emplace_back(
            static_cast<size_t>((rows + scales.block_rows - 1) / scales.block_rows * scales.row_stride) *
            sizeof(float));
        const float unit = std::exp2(std::floor(std::log2(scale))) / 8;
        for (size_t i = 0; i < factors.size() / 4; ++i) {
            const float factor = unit * static_cast<float>(6 + random_.below(5));
            std::memcpy(factors.data() + 4 * i, &factor, 4);
        }
        std::vector<std::byte>& bytes = storage_.emplace_back(view.bytes());
        for (std::byte& byte : bytes) byte = std::byte{to_float8_e4m3(random_.centered()).bits};
        view.data = bytes.data();
        scales.data = factors.data();
        return view;
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
    WeightView norm(int64_t size, float mean = 1.0F) { return make(1, size, mean - spec.norm_offset, 0.2F); }

    Random random_;
    DType dtype_;
    std::vector<int32_t> order_;
    int64_t next_scales_ = 0;
    std::deque<std::vector<std::byte>> storage_;  // the embedding first
};

}  // namespace nanolith::testing
