// How many bytes a model's matrices take in each form, against numbers worked out by hand.
#include "backend/weight_form.h"

#include <gtest/gtest.h>

namespace nanolith {
namespace {

constexpr std::byte kEmbedding{};
constexpr std::byte kHead{};
constexpr std::byte kOther{};

WeightView matrix(int64_t rows, const std::byte* data = &kOther) {
    return {DType::bf16, rows, 64, data};
}

// A layer with an MLP and one with four experts, of 64 inputs each; embedding and head of 100 tokens.
ModelWeights small_weights(bool tied) {
    ModelWeights weights;
    weights.embedding = matrix(100, &kEmbedding);
    weights.head = matrix(100, tied ? &kEmbedding : &kHead);
    LayerWeights layer;
    layer.q_proj = matrix(128);
    layer.k_proj = layer.v_proj = matrix(32);
    layer.o_proj = matrix(64);
    weights.layers.assign(2, layer);
    weights.layers[0].gate_proj = weights.layers[0].up_proj = matrix(256);
    weights.layers[0].down_proj = matrix(512);
    weights.layers[1].router = matrix(4);
    weights.layers[1].experts.assign(4, ExpertWeights{matrix(16), matrix(16), matrix(32)});
    return weights;
}

// With so many bytes for each element of a matrix, of a table (embedding and head), and of a router.
void expect_bytes(WeightForm form, double matrix, double table, double router) {
    SCOPED_TRACE(form_name(form));
    const ModelWeights weights = small_weights(false);
    const MatrixBytes bytes = matrix_bytes(weights, form, DType::bf16);
    ASSERT_EQ(bytes.layers.size(), 2U);
    EXPECT_FALSE(bytes.layers[0].has_experts);
    EXPECT_TRUE(bytes.layers[1].has_experts);
    const ByPhase<double> dense{192 * 64 * matrix, 0, 64 * 64 * matrix, 512 * 64 * matrix, 512 * 64 * matrix, 0};
    const ByPhase<double> experts{192 * 64 * matrix, 0, 64 * 64 * matrix, 4 * 64 * router, 4 * 64 * 64 * matrix, 0};
    EXPECT_EQ(bytes.layers[0].phases, dense);
    EXPECT_EQ(bytes.layers[1].phases, experts);
    EXPECT_EQ(bytes.head, 100 * 64 * table);
    const double layers = 64 * (1792 * matrix + 4 * router);
    EXPECT_EQ(static_cast<double>(stored_bytes(weights, form, DType::bf16)), layers + 200 * 64 * table);
    // A head that is the embedding is kept once, and read by its phase all the same.
    EXPECT_EQ(static_cast<double>(stored_bytes(small_weights(true), form, DType::bf16)), layers + 100 * 64 * table);
    EXPECT_EQ(matrix_bytes(small_weights(true), form, DType::bf16).head, bytes.head);
}

TEST(WeightForm, BytesOfEachPhase) {
    expect_bytes(WeightForm::wide, 2, 2, 2);
    expect_bytes(WeightForm::source, 2, 2, 2);
    expect_bytes(WeightForm::fp8, 1, 1, 2);
    expect_bytes(WeightForm::int8, 8.5 / 8, 8.5 / 8, 2);    // a float16 scale for 32 codes
    expect_bytes(WeightForm::int4, 4.625 / 8, 8.5 / 8, 2);  // 8 bits of scale and of minimum for 32, 16 each for 256
}

}  // namespace
}  // namespace nanolith
