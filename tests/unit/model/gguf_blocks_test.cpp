// Matrices of GGUF files that stay in blocks: on the CPU they are, number for number, what their decoder makes of them,
// which the `gguf` package's numbers are compared with in block_type_test.cpp.
#include <cmath>
#include <random>

#include "backend/cpu/compact_matrix.h"
#include "backend/read_weight.h"
#include "backend/weight_form.h"
#include "model/model.h"
#include "support/model_files.h"
#include "support/random_gguf.h"

namespace nanolith::testing {
namespace {

class GgufBlocks : public ::testing::Test {
  protected:
    std::unique_ptr<Model> load(const std::string& bytes) {
        folder_.write("model.gguf", bytes);
        auto model = load_model(folder_.file("model.gguf"));
        EXPECT_TRUE(model.ok()) << model.error().message;
        return model.ok() ? std::move(*model) : nullptr;
    }

    static std::vector<const WeightView*> matrices_of(const ModelWeights& weights) {
        std::vector<const WeightView*> matrices{&weights.embedding, &weights.head};
        for (const LayerWeights& layer : weights.layers) {
            for (const WeightView* const weight : {&layer.q_proj, &layer.k_proj, &layer.v_proj, &layer.o_proj,
                                                   &layer.gate_proj, &layer.up_proj, &layer.down_proj})
                if (weight->present()) matrices.push_back(weight);
            for (const ExpertWeights& expert : layer.experts)
                for (const WeightView* const weight : {&expert.gate_proj, &expert.up_proj, &expert.down_proj})
                    matrices.push_back(weight);
        }
        return matrices;
    }

    // What the CPU keeps of a matrix, in float32.
    std::vector<float> kept(const WeightView& matrix) {
        std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
        auto rows = cpu::load_compact("w", matrix, matrix.compact->form(), *pool_);
        EXPECT_TRUE(rows.ok());
        std::vector<cpu::CompactRows> parts;
        parts.push_back(std::move(*rows));
        for (int64_t row = 0; row < matrix.rows; ++row) cpu::expand_row(parts, row, values.data() + row * matrix.cols);
        return values;
    }

    void expect_decoded(const WeightView& matrix) {
        ASSERT_NE(matrix.compact, nullptr);
        std::vector<float> decoded(static_cast<size_t>(matrix.rows * matrix.cols));
        read_weight(matrix, 0, matrix.rows * matrix.cols, decoded.data());
        const std::vector<float> values = kept(matrix);
        for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], decoded[i]) << "element " << i;
    }

    std::unique_ptr<ThreadPool> pool_ = ThreadPool::create(2);
    TempFolder folder_;
    const uint64_t seed_ = std::random_device{}();
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
    Random random_{seed_};
};

TEST_F(GgufBlocks, OfEveryTypeAreKeptExactly) {
    for (const BlockType* const type : quantised_types()) {
        for (const int32_t experts : {0, 3}) {
            SCOPED_TRACE(std::string(type->name) + ", " + std::to_string(experts) + " experts");
            RandomGguf gguf;
            if (type->elements == 32) gguf.hidden = 96, gguf.intermediate = 288;  // no whole compact blocks
            gguf.experts = experts;
            gguf.type_of_next = [&]() -> const BlockType& { return *type; };
            gguf.blocks = [&](const BlockType& of, int64_t count, int64_t) {
                return extreme_blocks(of, count, random_);
            };
            const auto model = load(gguf.file(random_));
            ASSERT_NE(model, nullptr);
            int64_t elements = 0;
            for (const WeightView* const matrix : matrices_of(model->weights)) {
                ASSERT_NO_FATAL_FAILURE(expect_decoded(*matrix));
                elements += matrix->rows * matrix->cols;
            }
            const auto routers = static_cast<uint64_t>(2 * experts * gguf.hidden * 2);  // bfloat16
            EXPECT_EQ(
                stored_bytes(model->weights, WeightForm::source, DType::bf16),
                static_cast<uint64_t>(std::ceil(static_cast<double>(elements) * bits_of(type->form) / 8)) + routers);
            EXPECT_TRUE(finish_loading(*model, false)->empty());
        }
    }
}

// Rows so long that each is read by itself, in several pieces; shorter ones are read several at a time.
TEST_F(GgufBlocks, OfLongRowsAreKeptExactly) {
    const auto types = quantised_types();
    const BlockType* const type = types[static_cast<size_t>(random_.below(static_cast<int32_t>(types.size())))];
    SCOPED_TRACE(type->name);
    RandomGguf gguf;
    gguf.intermediate = 256 * (100 + random_.below(8));  // too long even at 2 bits
    gguf.type_of_next = [&]() -> const BlockType& { return *type; };
    gguf.blocks = [&](const BlockType& of, int64_t count, int64_t) { return extreme_blocks(of, count, random_); };
    const auto model = load(gguf.file(random_));
    ASSERT_NE(model, nullptr);
    ASSERT_NO_FATAL_FAILURE(expect_decoded(model->weights.layers.front().down_proj));
    EXPECT_TRUE(finish_loading(*model, false)->empty());
}

// As many elements of the tensor as its decoder finds; what the CPU keeps of the row is NaN.
TEST_F(GgufBlocks, ThatAreNotFiniteAreCounted) {
    for (const BlockType* const type : quantised_types()) {
        SCOPED_TRACE(type->name);
        RandomGguf gguf;
        gguf.type_of_next = [&]() -> const BlockType& { return *type; };
        std::string first;  // the embedding's
        gguf.blocks = [&](const BlockType& of, int64_t count, int64_t) {
            std::string blocks = some_blocks(of, count, 1, random_);
            if (first.empty()) {
                blocks.replace(static_cast<size_t>(scales_of(of).scale), 2, "\0\x7C", 2);  // infinity
                first = blocks.substr(0, static_cast<size_t>(of.bytes));
            }
            return blocks;
        };
        const auto model = load(gguf.file(random_));
        ASSERT_NE(model, nullptr);
        std::vector<float> decoded(static_cast<size_t>(type->elements));
        const WeightView& embedding = model->weights.embedding;
        type->decode(reinterpret_cast<const std::byte*>(first.data()), 1, decoded.data());
        const auto expected = std::ranges::count_if(decoded, [](float value) { return !std::isfinite(value); });
        ASSERT_GT(expected, 0);
        const std::vector<float> values = kept(embedding);
        for (int64_t k = 0; k < embedding.cols; ++k) ASSERT_TRUE(std::isnan(values[k])) << k;
        ASSERT_TRUE(std::isfinite(values[embedding.cols]));
        const auto found = finish_loading(*model, false);
        ASSERT_TRUE(found.ok());
        ASSERT_EQ(found->size(), 1U);
        EXPECT_EQ(found->front().tensor, "token_embd.weight");
        EXPECT_EQ(found->front().count, expected);
        EXPECT_EQ(found->front().size, gguf.hidden * gguf.vocab);
    }
}

}  // namespace
}  // namespace nanolith::testing
