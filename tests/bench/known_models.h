// Random weights in known models' shapes, for benchmarks of the library's insides: speed does not depend on the values
// of weights, except that with experts it depends on how evenly rows choose them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/device_name.h"
#include "bench/shapes.h"
#include "support/random_model.h"

namespace nanolith::bench {

// The weights of one model. All matrices are views of the same random values, since a device copies each of them; the
// untied head begins one element later, so that it is another matrix than the embedding.
//
// Layers of such weights add nearly the same vector to each row, and rows that are alike choose the same experts.
// Models with experts therefore have an embedding of their own, with values much larger than what layers add: rows then
// differ as their tokens do, and choose experts evenly.
class RandomWeights {
  public:
    explicit RandomWeights(const Shape& shape)
        : matrix_(static_cast<size_t>(largest(shape)) + 1), ones_(static_cast<size_t>(shape.hidden), 0x3f80) {
        std::mt19937 random(1);
        // bfloat16 of either sign from 2^-6 to 2^-5: alike in size, so that activations stay in range.
        for (uint16_t& value : matrix_) value = static_cast<uint16_t>((random() & 0x807fU) | 0x3c80U);
        weights.embedding = matrix(shape.vocab, shape.hidden);
        weights.head = matrix(shape.vocab, shape.hidden);
        if (!shape.tied) weights.head.data += sizeof(uint16_t);
        if (shape.experts.count > 0) {
            embedding_.resize(static_cast<size_t>(int64_t{shape.vocab} * shape.hidden));
            // The same from 2^4 to 2^5.
            for (uint16_t& value : embedding_) value = static_cast<uint16_t>((random() & 0x807fU) | 0x4180U);
            weights.embedding.data = reinterpret_cast<const std::byte*>(embedding_.data());
        }
        weights.final_norm = ones(shape.hidden);
        weights.layers.assign(shape.layers, layer(shape));
    }

    ModelWeights weights;

  private:
    static int64_t largest(const Shape& shape) {
        return int64_t{shape.hidden} * std::max({shape.vocab, shape.intermediate, shape.heads * shape.head_dim});
    }
    [[nodiscard]] WeightView matrix(int64_t rows, int64_t cols) const {
        return {DType::bf16, rows, cols, reinterpret_cast<const std::byte*>(matrix_.data())};
    }
    [[nodiscard]] WeightView ones(int64_t cols) const {
        return {DType::bf16, 1, cols, reinterpret_cast<const std::byte*>(ones_.data())};
    }
    [[nodiscard]] LayerWeights layer(const Shape& shape) const {
        LayerWeights layer;
        layer.attention_norm = ones(shape.hidden);
        layer.q_proj = matrix(int64_t{shape.heads} * shape.head_dim, shape.hidden);
        layer.k_proj = layer.v_proj = matrix(int64_t{shape.kv_heads} * shape.head_dim, shape.hidden);
        if (shape.qk_norm) layer.q_norm = layer.k_norm = ones(shape.head_dim);
        layer.o_proj = matrix(shape.hidden, int64_t{shape.heads} * shape.head_dim);
        layer.mlp_norm = ones(shape.hidden);
        if (shape.experts.count > 0) {
            const int64_t inner = shape.experts.intermediate_size;
            const ExpertWeights expert{matrix(inner, shape.hidden), matrix(inner, shape.hidden),
                                       matrix(shape.hidden, inner)};
            layer.router = matrix(shape.experts.count, shape.hidden);
            layer.experts.assign(shape.experts.count, expert);
        } else {
            layer.gate_proj = layer.up_proj = matrix(shape.intermediate, shape.hidden);
            layer.down_proj = matrix(shape.hidden, shape.intermediate);
        }
        return layer;
    }

    std::vector<uint16_t> matrix_;
    std::vector<uint16_t> embedding_;  // of models with experts
    std::vector<uint16_t> ones_;
};

// The shape for tests/support/random_model.h.
inline testing::RandomShape random_shape(const Shape& shape, int32_t max_context) {
    testing::RandomShape random;
    random.num_layers = shape.layers;
    random.hidden_size = shape.hidden;
    random.intermediate_size = shape.intermediate;
    random.num_heads = shape.heads;
    random.num_kv_heads = shape.kv_heads;
    random.head_dim = shape.head_dim;
    random.vocab_size = shape.vocab;
    random.max_context = max_context;
    random.qk_norm = shape.qk_norm;
    random.tied = shape.tied;
    random.rope_theta = 500000.0F;
    const ShapeExperts& experts = shape.experts;
    random.numbers.experts = {experts.count, experts.top_k, experts.intermediate_size, experts.normalized};
    return random;
}

// "cpu", "cuda" or "cuda:N".
inline Result<std::unique_ptr<Backend>> open_device(const std::string& device) {
    NL_ASSIGN(const DeviceName name, parse_device_name(device, AutoDevice::refused));
    return name.kind == DeviceKind::cpu ? open_cpu_backend(0) : open_cuda_backend(name.index);
}

}  // namespace nanolith::bench
