// What a step must move and compute, against numbers worked out by hand.
#include "backend/step_traffic.h"

#include <gtest/gtest.h>

#include <numeric>

namespace nanolith {
namespace {

// One layer in bfloat16: hidden size 4, queries of 2 * 2 elements, keys and values of 2 each, an MLP of 6, 10 tokens.
ModelSpec small_spec() {
    ModelSpec spec;
    spec.num_layers = 1;
    spec.hidden_size = 4;
    spec.intermediate_size = 6;
    spec.num_heads = 2;
    spec.num_kv_heads = 1;
    spec.head_dim = 2;
    spec.vocab_size = 10;
    spec.layers = {LayerSpec()};
    return spec;
}

// As many layers of it. Of weights of half the size `bytes` is 1.
MatrixBytes small_matrices(size_t layers = 1, double bytes = 2) {
    MatrixBytes matrices;
    const MatrixBytes::Layer layer{{32 * bytes, 0, 16 * bytes, 48 * bytes, 24 * bytes}, false};
    matrices.layers.assign(layers, layer);
    matrices.head = 40 * bytes;
    return matrices;
}

ExecutorOptions small_options() {
    ExecutorOptions options;
    options.dtype = DType::bf16;
    return options;
}

constexpr int32_t kTable[] = {0, 1, 2, 2};

// Rows at these positions of one sequence, which see a segment of `length` tokens. The first one draws.
Batch rows_of_one(std::vector<int32_t> positions, int32_t length) {
    Batch batch;
    batch.tokens.assign(positions.size(), 1);
    batch.slots.assign(positions.size(), 5);
    batch.positions = std::move(positions);
    batch.page_table = kTable;
    batch.segments = {{0, length, 0}};
    batch.sequences = {{0, static_cast<int32_t>(batch.tokens.size()), 0, 1}};
    batch.output_rows = {0};
    return batch;
}

void expect(const Traffic& traffic, double read, double written, double flops) {
    EXPECT_DOUBLE_EQ(traffic.read, read);
    EXPECT_DOUBLE_EQ(traffic.written, written);
    EXPECT_DOUBLE_EQ(traffic.flops, flops);
}

TEST(StepTraffic, OfEachPhase) {
    Batch batch = rows_of_one({3, 4}, 5);
    batch.output_rows = {1};
    const StepTraffic traffic = step_traffic(small_spec(), small_matrices(), small_options(), batch);
    expect(traffic[index_of(Phase::attention_input)], 64 + 32, 16 + 16, 128);
    expect(traffic[index_of(Phase::attention)], 16 + 40, 16, 16 * (4 + 5));
    expect(traffic[index_of(Phase::attention_output)], 32 + 16 + 32, 32, 64);
    expect(traffic[index_of(Phase::mlp_input)], 96 + 32, 24, 192);
    expect(traffic[index_of(Phase::mlp_output)], 48 + 24 + 32, 32, 96);
    expect(traffic[index_of(Phase::head)], 80 + 16, 40, 80);
    expect(total(traffic), 560, 176, 704);
}

TEST(StepTraffic, WhatIsNotDoneDoesNotCount) {
    Batch batch = rows_of_one({3, 4}, 5);
    batch.slots = {kNoSlot, 7};
    batch.output_rows.clear();
    const StepTraffic traffic = step_traffic(small_spec(), small_matrices(), small_options(), batch);
    expect(traffic[index_of(Phase::attention_input)], 96, 16 + 8, 128);
    // Of the last layer, which is the only one, nobody reads more than the keys and values.
    expect(total(traffic), 96, 16 + 8, 128);
}

TEST(StepTraffic, PagesOfEightBits) {
    ExecutorOptions options = small_options();
    options.kv_dtype = DType::f8_e4m3;
    const StepTraffic traffic = step_traffic(small_spec(), small_matrices(), options, rows_of_one({3, 4}, 5));
    expect(traffic[index_of(Phase::attention_input)], 96, 16 + 8, 128);
    expect(traffic[index_of(Phase::attention)], 16 + 20, 16, 144);
}

TEST(StepTraffic, WeightsOfEightBits) {
    const StepTraffic traffic =
        step_traffic(small_spec(), small_matrices(1, 1), small_options(), rows_of_one({3, 4}, 5));
    expect(traffic[index_of(Phase::attention_input)], 32 + 32, 16 + 16, 128);
    expect(traffic[index_of(Phase::mlp_input)], 48 + 32, 24, 192);
    expect(traffic[index_of(Phase::head)], 40 + 16, 40, 80);
}

// Of two sequences after a chunk of 8 tokens, each with a token of its own, 10 tokens are read and 18 are seen. The
// second one finds the chunk through other entries of the table.
TEST(StepTraffic, SharedPagesAreReadOnce) {
    Batch batch = rows_of_one({8, 8}, 0);
    for (const int32_t entry : {0, 2}) {
        batch.segments = {{2, 8, 0}, {0, 1, 8}, {entry == 0 ? 2 : 3, 8, 0}, {1, 1, 8}};
        batch.sequences = {{0, 1, 0, 2}, {1, 1, 2, 2}};
        const StepTraffic traffic = step_traffic(small_spec(), small_matrices(), small_options(), batch);
        expect(traffic[index_of(Phase::attention)], 16 + 10 * 8, 16, 16 * 18);
    }
}

// Rows at 10 and 11 with a window of 3 see positions 8 to 10 and 9 to 11. The other layer sees all.
TEST(StepTraffic, WindowsLimitWhatIsSeen) {
    ModelSpec spec = small_spec();
    spec.num_layers = 2;
    spec.layers = {{.rope = 0, .window = 3}, {.rope = 0, .window = 0}};
    const StepTraffic traffic = step_traffic(spec, small_matrices(2), small_options(), rows_of_one({10, 11}, 12));
    expect(traffic[index_of(Phase::attention)], 2 * 16 + (4 + 12) * 8, 2 * 16, 16 * (6 + 11 + 12));
}

// Two rows that choose 2 of 4 experts each leave one of the four unchosen on average.
TEST(StepTraffic, ExpertsThatRowsChoose) {
    ModelSpec spec = small_spec();
    spec.experts.count = 4;
    spec.experts.top_k = 2;
    spec.experts.intermediate_size = 5;
    MatrixBytes matrices = small_matrices();
    matrices.layers[0] = {{64, 0, 32, 32, 4 * 120}, true};
    const StepTraffic traffic = step_traffic(spec, matrices, small_options(), rows_of_one({3, 4}, 5));
    expect(traffic[index_of(Phase::mlp_input)], 32 + 32, 16, 64);
    expect(traffic[index_of(Phase::mlp_output)], 3 * 120 + 16 + 32, 32, 480);
}

}  // namespace
}  // namespace nanolith
