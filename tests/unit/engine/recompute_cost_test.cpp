#include "engine/recompute_cost.h"

#include <gtest/gtest.h>

namespace nanolith {
namespace {

ModelSpec spec_with(std::vector<LayerSpec> layers) {
    ModelSpec spec;
    spec.num_layers = static_cast<int32_t>(layers.size());
    spec.hidden_size = 64;
    spec.intermediate_size = 96;
    spec.num_heads = 4;
    spec.num_kv_heads = 2;
    spec.head_dim = 16;
    spec.layers = std::move(layers);
    return spec;
}

ChunkIdentity chunk_of(size_t tokens, std::vector<size_t> before = {}) {
    ChunkIdentity identity;
    identity.tokens.resize(tokens);
    for (const size_t count : before) {
        auto other = std::make_shared<ChunkIdentity>();
        other->tokens.resize(count);
        identity.before.push_back(std::move(other));
    }
    return identity;
}

// A token's products in one layer: 2 * 64 * (64 + 32 + 32 + 64 + 3 * 96) = 61,440; its attention: 4 * 64 = 256 a token
// that it sees.
TEST(RecomputeCost, GrowsWithWhatIsSeen) {
    const ModelSpec spec = spec_with({{}, {}});
    EXPECT_DOUBLE_EQ(recompute_cost(spec, chunk_of(16), 16), 1 + 8.5 * 256 / 61440);
    EXPECT_DOUBLE_EQ(recompute_cost(spec, chunk_of(16, {100, 140}), 16), 1 + 248.5 * 256 / 61440);
}

// Not 0 / 0, which is not a number: chunks could then not be sorted by their worth.
TEST(RecomputeCost, OfNoProductsIsANumber) {
    EXPECT_DOUBLE_EQ(recompute_cost(ModelSpec{}, chunk_of(16), 16), 1);
}

TEST(RecomputeCost, SlidingWindowsSeeLess) {
    const ModelSpec spec = spec_with({{.window = 20}, {}});
    EXPECT_DOUBLE_EQ(recompute_cost(spec, chunk_of(16, {240}), 16), 1 + (20 + 248.5) / 2 * 256 / 61440);
}

TEST(RecomputeCost, AHalfEmptyPageIsWorthHalf) {
    const ModelSpec spec = spec_with({{}});
    EXPECT_DOUBLE_EQ(recompute_cost(spec, chunk_of(24), 16), (1 + 12.5 * 256 / 61440) * 24 / 32);
}

TEST(RecomputeCost, OfExpertsThoseThatAreChosenCount) {
    ModelSpec spec = spec_with({{}});
    spec.experts.count = 8;
    spec.experts.top_k = 2;
    spec.experts.intermediate_size = 48;
    EXPECT_DOUBLE_EQ(recompute_cost(spec, chunk_of(16), 16), 1 + 8.5 * 256 / 61440);
}

}  // namespace
}  // namespace nanolith
