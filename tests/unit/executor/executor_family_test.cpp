// What model families add to the plain decoder, each against the float64 reference through the paged cache: alone, and
// together as families have it. Each test also sees that the bound tells the feature from its absence.
#include <algorithm>
#include <cmath>
#include <functional>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

RandomShape small_shape(int32_t num_layers = 2) {
    return {.num_layers = num_layers, .hidden_size = 52, .intermediate_size = 44, .vocab_size = 71, .max_context = 512};
}

// Far above what rounding does to a router's logits, which have variance 1 here.
constexpr double kMargin = 0.1;

class FamilyExecutorTest : public ExecutorTest {
  protected:
    using Change = std::function<void(ModelSpec&, ModelWeights&)>;

    static std::vector<int32_t> draw(PagedHarness& harness, const RandomModel& model, const Job& job, int32_t count) {
        if (model.spec.experts.count == 0) return harness.tokens(count);
        return harness.clear_tokens(job, count, kMargin);
    }

    // Prefill in slices, decode, and chunks in other places than they were made at; near and far ones. float32 is held
    // to its bound at each step; a row or two at 16 bits scatter, so there it is on all steps together.
    void expect_reference(const RandomShape& shape, const std::string& what, int32_t page_size = 16) {
        RandomModel model(shape, GetParam().dtype, seed_ + salt_++);
        PagedHarness harness(*backend_, model, options(page_size, 1024 / page_size), seed_);
        ASSERT_TRUE(harness.ready()) << what;
        Deviation together;
        const auto run = [&](std::vector<Job> jobs, std::initializer_list<int32_t> counts, const char* step) {
            size_t i = 0;
            for (const int32_t count : counts) {
                jobs[i].tokens = draw(harness, model, jobs[i], count);
                ++i;
            }
            const Deviation deviation = harness.run(jobs);
            EXPECT_TRUE(deviation.finite) << what << ", " << step;
            if (GetParam().dtype == DType::f32) expect_close(deviation, what + ", " + step);
            together.add(deviation);
        };
        Store a, b, tail;
        run({{&a, 0, {}, {}}, {&b, 0, {}, {}}}, {33, 16}, "two chunks");
        run({{&tail, 0, {}, {}}}, {5}, "a first slice");
        run({{&tail, 0, {}, {}}}, {70}, "a long slice");
        run({{&tail, 0, {}, {}}}, {1}, "decode");
        Store ab, ba, far;
        const std::vector<Job> jobs = {{&ab, 49, {{&a, 0}, {&b, 33}}, {}},
                                       {&ba, 49, {{&b, 0}, {&a, 16}}, {}},
                                       {&far, 316, {{&a, 0}, {&b, 300}}, {}}};
        run(jobs, {4, 19, 2}, "chunks in other places");
        run(jobs, {1, 1, 1}, "decode after chunks");
        expect_close(together, what);
    }

    // The reference of a model that `change` makes another one is far outside of the bound.
    void expect_seen(const RandomShape& shape, const std::string& what, const Change& change) {
        RandomModel model(shape, GetParam().dtype, seed_ + salt_++);
        PagedHarness harness(*backend_, model, options(16, 20), seed_);
        ASSERT_TRUE(harness.ready()) << what;
        Store tail;
        Job job{&tail, 0, {}, {}};
        job.tokens = draw(harness, model, job, 40);
        ModelSpec spec = model.spec;
        ModelWeights weights = model.weights;
        change(spec, weights);
        harness.pretend(spec, weights);
        const Deviation deviation = harness.run({job});
        EXPECT_TRUE(deviation.finite) << what;
        EXPECT_GT(measure(GetParam().dtype, deviation), 3 * bound(GetParam().dtype).limit) << what;
    }

    void expect_seen_in_layers(const RandomShape& shape, const std::string& what,
                               const std::function<void(LayerWeights&)>& change) {
        expect_seen(shape, what, [&](ModelSpec&, ModelWeights& weights) {
            for (LayerWeights& layer : weights.layers) change(layer);
        });
    }

  private:
    uint64_t salt_ = 1000;
};

RandomShape with_windows(const std::vector<int32_t>& windows) {
    RandomShape shape = small_shape(static_cast<int32_t>(windows.size()));
    for (const int32_t window : windows) shape.layers.push_back({0, window});
    return shape;
}

// Windows shorter and longer than a page (16), a chunk (33), a slice (70) and all there is.
TEST_P(FamilyExecutorTest, Windows) {
    for (const std::vector<int32_t>& windows : std::vector<std::vector<int32_t>>{
             {1, 5}, {16, 17, 0}, {15, 33, 40}, {64, 65, 3}, {69, 71, 2}, {300, 0, 100}, {1 << 30, 7}}) {
        std::string what = "windows";
        for (const int32_t window : windows) what += " " + std::to_string(window);
        expect_reference(with_windows(windows), what);
        expect_reference(with_windows(windows), what + ", pages of 64", 64);
    }
    for (const int32_t off : {-1, 1}) {
        expect_seen(with_windows({4, 3, 3}), "windows off by " + std::to_string(off), [&](ModelSpec& spec, auto&) {
            for (LayerSpec& layer : spec.layers) layer.window += off;
        });
    }
    expect_seen(with_windows({2, 20}), "windows of each other's layer",
                [](ModelSpec& spec, auto&) { std::swap(spec.layers[0], spec.layers[1]); });
}

TEST_P(FamilyExecutorTest, AttentionSoftCap) {
    RandomShape shape = small_shape();
    shape.numbers.attention_softcap = 1.5F;
    expect_reference(shape, "attention soft cap");
    shape.layers = {{0, 9}, {0, 0}};
    expect_reference(shape, "attention soft cap with windows");
    expect_seen(shape, "no attention soft cap", [](ModelSpec& spec, auto&) { spec.attention_softcap = 0; });
    expect_seen(shape, "another attention soft cap", [](ModelSpec& spec, auto&) { spec.attention_softcap = 3; });
}

TEST_P(FamilyExecutorTest, LogitSoftCap) {
    RandomShape shape = small_shape();
    shape.numbers.logit_softcap = 1.25F;
    expect_reference(shape, "logit soft cap");
    expect_seen(shape, "no logit soft cap", [](ModelSpec& spec, auto&) { spec.logit_softcap = 0; });
}

TEST_P(FamilyExecutorTest, NormOffset) {
    RandomShape shape = small_shape();
    shape.numbers.norm_offset = 1;
    shape.qk_norm = true;
    shape.post_norms = true;
    expect_reference(shape, "norm offset");
    expect_seen(shape, "norms without their offset", [](ModelSpec& spec, auto&) { spec.norm_offset = 0; });
}

TEST_P(FamilyExecutorTest, PostNorms) {
    RandomShape shape = small_shape();
    shape.post_norms = true;
    expect_reference(shape, "post norms");
    expect_seen_in_layers(shape, "no attention post norm", [](LayerWeights& layer) { layer.attention_post_norm = {}; });
    expect_seen_in_layers(shape, "no MLP post norm", [](LayerWeights& layer) { layer.mlp_post_norm = {}; });
    expect_seen_in_layers(shape, "post norms of each other",
                          [](LayerWeights& layer) { std::swap(layer.mlp_post_norm, layer.attention_post_norm); });
}

TEST_P(FamilyExecutorTest, GeluTanh) {
    RandomShape shape = small_shape();
    shape.numbers.activation = Activation::gelu_tanh;
    expect_reference(shape, "gelu");
    expect_seen(shape, "silu", [](ModelSpec& spec, auto&) { spec.activation = Activation::silu; });
}

TEST_P(FamilyExecutorTest, EmbeddingScale) {
    RandomShape shape = small_shape();
    shape.numbers.embedding_scale = 3.5F;
    expect_reference(shape, "embedding scale");
    expect_seen(shape, "no embedding scale", [](ModelSpec& spec, auto&) { spec.embedding_scale = 1; });
    shape.tied = true;  // the head reads the embedding without it
    expect_seen(shape, "tied, no embedding scale", [](ModelSpec& spec, auto&) { spec.embedding_scale = 1; });
}

TEST_P(FamilyExecutorTest, Biases) {
    RandomShape shape = small_shape();
    shape.output_bias = true;
    expect_reference(shape, "bias of o_proj");
    expect_seen_in_layers(shape, "no bias of o_proj", [](LayerWeights& layer) { layer.o_bias = {}; });
    shape.mlp_bias = true;
    shape.qkv_bias = true;
    shape.post_norms = true;  // biases come before them
    expect_reference(shape, "all biases");
    expect_seen_in_layers(shape, "no bias of gate_proj", [](LayerWeights& layer) { layer.gate_bias = {}; });
    expect_seen_in_layers(shape, "no bias of up_proj", [](LayerWeights& layer) { layer.up_bias = {}; });
    expect_seen_in_layers(shape, "no bias of down_proj", [](LayerWeights& layer) { layer.down_bias = {}; });
    shape = small_shape();
    shape.mlp_bias = true;
    expect_reference(shape, "biases of the MLP alone");
}

TEST_P(FamilyExecutorTest, RopesByLayer) {
    RandomShape shape = small_shape(3);
    const auto pairs = static_cast<size_t>(shape.head_dim) / 2;
    shape.ropes = {{plain_frequencies(10000, shape.head_dim), {}},
                   {plain_frequencies(50, shape.head_dim), std::vector<float>(pairs, 1.3F)},
                   {std::vector<float>(pairs, 0.0F), {}}};
    shape.layers = {{1, 0}, {2, 0}, {0, 0}};
    expect_reference(shape, "ropes by layer");
    shape.layers = {{0, 12}, {2, 30}, {1, 0}};
    expect_reference(shape, "ropes and windows by layer");
    expect_seen(shape, "one rope", [](ModelSpec& spec, auto&) { spec.layers[2].rope = 0; });
    expect_seen(shape, "RoPE where there is none", [](ModelSpec& spec, auto&) { spec.layers[1].rope = 0; });
    expect_seen(shape, "no magnitudes", [](ModelSpec& spec, auto&) { spec.ropes[1].magnitudes.clear(); });
}

// Pairs that turn are made larger, others stay: YaRN on a part of the head.
TEST_P(FamilyExecutorTest, MagnitudesWithinARope) {
    RandomShape shape = small_shape();
    std::vector<float> frequencies = plain_frequencies(10000, shape.head_dim);
    std::vector<float> magnitudes(frequencies.size(), 1.4F);
    for (size_t i = 9; i < frequencies.size(); ++i) {
        frequencies[i] = 0;
        magnitudes[i] = 1;
    }
    shape.ropes = {{frequencies, magnitudes}};
    expect_reference(shape, "magnitudes within a rope");
    expect_seen(shape, "one magnitude for all", [](ModelSpec& spec, auto&) {
        for (float& magnitude : spec.ropes[0].magnitudes) magnitude = 1.4F;
    });
}

TEST_P(FamilyExecutorTest, OrderOfHeads) {
    RandomShape shape = small_shape();
    shape.ordered = true;
    expect_reference(shape, "order");
    shape.qkv_bias = true;
    shape.qk_norm = true;
    expect_reference(shape, "order of biases and norms");
    expect_seen_in_layers(shape, "keys as they lie", [](LayerWeights& layer) { layer.k_proj.order = {}; });
    expect_seen_in_layers(shape, "biases as they lie",
                          [](LayerWeights& layer) { layer.q_bias.order = layer.k_bias.order = {}; });
    expect_seen_in_layers(shape, "norms as they lie",
                          [](LayerWeights& layer) { layer.q_norm.order = layer.k_norm.order = {}; });
}

TEST_P(FamilyExecutorTest, ScaledWeights) {
    RandomShape shape = small_shape();
    shape.scaled = true;
    expect_reference(shape, "scales");
    shape.ordered = true;
    shape.qkv_bias = true;
    expect_reference(shape, "scales and order");
    expect_seen_in_layers(shape, "blocks twice as large", [](LayerWeights& layer) {
        for (WeightView* view : {&layer.q_proj, &layer.k_proj, &layer.v_proj, &layer.o_proj, &layer.gate_proj,
                                 &layer.up_proj, &layer.down_proj}) {
            if (view->scales.block_rows == 1) view->scales.block_rows = 2;
            if (view->scales.block_cols < view->cols) view->scales.block_cols *= 2;
        }
    });
    expect_seen_in_layers(shape, "no scales of up_proj", [](LayerWeights& layer) { layer.up_proj.scales = {}; });
}

RandomShape with_experts(int32_t count, int32_t top_k, bool normalized, int32_t num_layers = 2) {
    RandomShape shape = small_shape(num_layers);
    shape.numbers.experts = {count, top_k, 28, normalized};
    return shape;
}

TEST_P(FamilyExecutorTest, Experts) {
    expect_reference(with_experts(4, 2, true), "2 of 4 experts, normalized");
    expect_reference(with_experts(5, 2, false), "2 of 5 experts");
    expect_reference(with_experts(3, 1, false), "1 of 3 experts");
    expect_reference(with_experts(3, 1, true), "1 of 3 experts, normalized");
    expect_reference(with_experts(3, 3, false), "all experts");
    RandomShape mixed = with_experts(4, 2, true, 3);
    mixed.dense = {true, false, true};
    expect_reference(mixed, "a layer with experts between dense ones");
    mixed.dense = {false, true, false};
    mixed.intermediate_size = 20;  // smaller than an expert's
    expect_reference(mixed, "a dense layer between those with experts", 32);
    expect_seen(with_experts(4, 2, true), "shares that are not normalized",
                [](ModelSpec& spec, auto&) { spec.experts.normalized = false; });
    expect_seen(with_experts(4, 2, false), "normalized shares",
                [](ModelSpec& spec, auto&) { spec.experts.normalized = true; });
    expect_seen(with_experts(4, 2, true), "another number of experts",
                [](ModelSpec& spec, auto&) { spec.experts.top_k = 1; });
    expect_seen_in_layers(with_experts(4, 2, true), "other experts",
                          [](LayerWeights& layer) { std::swap(layer.experts[0], layer.experts[3]); });
}

// Of sizes that GPUs stream from memory for a row or a few, with fewer tiles of weights than thread blocks and with
// more.
TEST_P(FamilyExecutorTest, ExpertsOfWholeLines) {
    Random random(seed_);
    for (int i = 0; i < 4; ++i) {
        const int32_t count = 1 + random.below(9);
        RandomShape shape = with_experts(count, 1 + random.below(std::min(count, 4)), true);
        shape.hidden_size = 64 * (1 + random.below(5));
        shape.numbers.experts.intermediate_size = 64 * (1 + random.below(i == 0 ? 1 : 5));
        expect_reference(shape, std::to_string(shape.numbers.experts.top_k) + " of " + std::to_string(count) +
                                    " experts, hidden " + std::to_string(shape.hidden_size) + ", inner " +
                                    std::to_string(shape.numbers.experts.intermediate_size));
    }
}

// Sums and outputs of sizes that suit the tensor cores and that don't, and more rows an expert than they take at once.
TEST_P(FamilyExecutorTest, ExpertsOfOtherSizes) {
    for (const auto& [hidden, inner] : {std::pair(96, 64), std::pair(48, 64), std::pair(64, 40)}) {
        RandomShape shape = with_experts(3, 3, true);
        shape.hidden_size = hidden;
        shape.numbers.experts.intermediate_size = inner;
        expect_reference(shape, std::to_string(hidden) + " elements, " + std::to_string(inner) + " inside");
    }
}

// Few rows of sizes that streamed products take, up to four rows a step, more than one chunk of columns and sizes that
// end within a chunk, many experts of which few are chosen, and outputs that do not fill the last tile.
TEST_P(FamilyExecutorTest, ExpertsOfFewRows) {
    struct Sizes {
        int32_t hidden, inner, count, top_k;
    };
    for (const Sizes& sizes : {Sizes{64, 64, 3, 3}, Sizes{320, 128, 20, 8}, Sizes{128, 576, 5, 1}}) {
        RandomShape shape = with_experts(sizes.count, sizes.top_k, true);
        shape.hidden_size = sizes.hidden;
        shape.numbers.experts.intermediate_size = sizes.inner;
        RandomModel model(shape, GetParam().dtype, seed_ + 1);
        PagedHarness harness(*backend_, model, options(16, 40), seed_);
        ASSERT_TRUE(harness.ready());
        for (const size_t rows : {1, 3, 4}) {
            SCOPED_TRACE(std::to_string(sizes.hidden) + " elements, " + std::to_string(sizes.inner) + " inside, " +
                         std::to_string(rows) + " rows");
            std::vector<Store> stores(rows);
            Deviation deviation;
            for (int step = 0; step < 2; ++step) {
                std::vector<Job> jobs;
                for (Store& store : stores) {
                    const Job first{&store, 0, {}, {}};
                    jobs.push_back({&store, 0, {}, harness.clear_tokens(first, 1, kMargin)});
                }
                deviation.add(harness.run(jobs));
            }
            expect_close(deviation, "few rows");
        }
    }
}

// Every row of a batch chooses the same experts, the others get none; and a batch of one row.
TEST_P(FamilyExecutorTest, RowsThatChooseTheSameExperts) {
    RandomModel model(with_experts(6, 2, true), GetParam().dtype, seed_ + 1);
    PagedHarness harness(*backend_, model, options(16, 40), seed_);
    ASSERT_TRUE(harness.ready());
    std::vector<Store> stores(20);
    Deviation together;
    for (int step = 0; step < 3; ++step) {
        const Job first{&stores[0], 0, {}, {}};
        const std::vector<int32_t> tokens = harness.clear_tokens(first, 1, kMargin);
        std::vector<Job> jobs;
        for (Store& store : stores) jobs.push_back({&store, 0, {}, tokens});
        together.add(harness.run(jobs));
    }
    Store alone;
    Job job{&alone, 0, {}, {}};
    job.tokens = harness.clear_tokens(job, 1, kMargin);
    together.add(harness.run({job}));
    expect_close(together, "twenty rows of the same token three times, and one row");
}

// As Gemma 2 has it, and as no family has it: everything at once.
TEST_P(FamilyExecutorTest, AllTogether) {
    RandomShape gemma = small_shape();
    gemma.numbers.norm_offset = 1;
    gemma.numbers.embedding_scale = 7.25F;
    gemma.numbers.activation = Activation::gelu_tanh;
    gemma.numbers.attention_softcap = 5;
    gemma.numbers.logit_softcap = 3;
    gemma.post_norms = true;
    gemma.tied = true;
    gemma.layers = {{0, 11}, {0, 0}};
    expect_reference(gemma, "Gemma 2");
    expect_reference(gemma, "Gemma 2 with pages of 64", 64);
    RandomShape everything = gemma;
    everything.qkv_bias = true;
    everything.output_bias = true;
    everything.mlp_bias = true;
    everything.qk_norm = true;
    everything.ordered = true;
    everything.scaled = true;
    everything.ropes = {{plain_frequencies(10000, everything.head_dim), {}},
                        {std::vector<float>(static_cast<size_t>(everything.head_dim) / 2, 0.0F), {}}};
    everything.layers = {{0, 11}, {1, 50}};
    expect_reference(everything, "everything but experts");
    RandomShape experts = with_experts(4, 2, true);
    experts.scaled = true;
    experts.ordered = true;
    experts.output_bias = true;
    experts.numbers.activation = Activation::gelu_tanh;
    experts.numbers.norm_offset = 1;
    experts.layers = {{0, 7}, {0, 0}};
    expect_reference(experts, "experts with the rest", 32);
}

INSTANTIATE_TEST_SUITE_P(Backends, FamilyExecutorTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
