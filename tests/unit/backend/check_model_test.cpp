// What backends refuse before they take any memory: every message names the field or weight, what it is and what was
// expected.
#include "backend/check_model.h"

#include <cmath>
#include <functional>

#include "backend/backend.h"
#include "support/model_files.h"
#include "support/random_model.h"

namespace nanolith {
namespace {

using testing::expect_error;
using testing::RandomModel;
using testing::RandomShape;

// With every optional part, and experts in the second of three layers.
RandomShape full_shape() {
    RandomShape shape;
    shape.num_layers = 3;
    shape.hidden_size = 20;
    shape.intermediate_size = 24;
    shape.head_dim = 8;
    shape.vocab_size = 11;
    shape.qkv_bias = true;
    shape.qk_norm = true;
    shape.output_bias = true;
    shape.numbers.experts = {3, 2, 16, true};
    shape.dense = {true, false, true};
    shape.ordered = true;
    shape.ropes = {{testing::plain_frequencies(10000, 8), {}}, {std::vector<float>(4, 0.0F), std::vector<float>(4, 2)}};
    shape.layers = {{0, 0}, {1, 5}, {1, 0}};
    return shape;
}

class CheckModel : public ::testing::Test {
  protected:
    CheckModel() : model_(full_shape(), DType::f32, 1) {
        options_.num_pages = 4;
        ExpertWeights& expert = model_.weights.layers[1].experts[0];
        model_.weights.layers[0].gate_bias = row(expert.gate_proj, 24);
        model_.weights.layers[0].up_bias = row(expert.gate_proj, 24);
        model_.weights.layers[0].down_bias = row(expert.gate_proj, 20);
        model_.weights.layers[0].attention_post_norm = row(expert.gate_proj, 20);
        model_.weights.layers[0].mlp_post_norm = row(expert.gate_proj, 20);
    }

    // A vector that borrows a matrix's data.
    static WeightView row(const WeightView& from, int64_t size) { return {from.dtype, 1, size, from.data}; }

    using Change = std::function<void(ModelSpec&, ModelWeights&, ExecutorOptions&)>;
    void refused(const Change& change, const std::vector<std::string>& parts) const {
        ModelSpec spec = model_.spec;
        ModelWeights weights = model_.weights;
        ExecutorOptions options = options_;
        change(spec, weights, options);
        SCOPED_TRACE(parts.front());
        expect_error(check_model(spec, weights, options), NL_ERROR_INVALID_ARGUMENT, parts);
    }
    void refused_spec(const std::function<void(ModelSpec&)>& change, const std::vector<std::string>& parts) const {
        refused([&](ModelSpec& spec, ModelWeights&, ExecutorOptions&) { change(spec); }, parts);
    }
    void refused_layer(size_t layer, const std::function<void(LayerWeights&)>& change,
                       const std::vector<std::string>& parts) const {
        refused([&](ModelSpec&, ModelWeights& weights, ExecutorOptions&) { change(weights.layers[layer]); }, parts);
    }

    RandomModel model_;
    ExecutorOptions options_;
};

TEST_F(CheckModel, TakesEveryPart) {
    const auto checked = check_model(model_.spec, model_.weights, options_);
    EXPECT_TRUE(checked.ok()) << checked.error().message;
}

TEST_F(CheckModel, Sizes) {
    const std::pair<const char*, int32_t ModelSpec::*> sizes[] = {
        {"num_layers", &ModelSpec::num_layers}, {"hidden_size", &ModelSpec::hidden_size},
        {"num_heads", &ModelSpec::num_heads},   {"intermediate_size", &ModelSpec::intermediate_size},
        {"head_dim", &ModelSpec::head_dim},     {"num_kv_heads", &ModelSpec::num_kv_heads},
        {"vocab_size", &ModelSpec::vocab_size}, {"max_context", &ModelSpec::max_context}};
    for (const auto& [name, member] : sizes) {
        for (const int32_t value : {0, -1, INT32_MIN}) {
            refused_spec([&, at = member](ModelSpec& spec) { spec.*at = value; },
                         {std::string(name) + " is " + std::to_string(value), "at least 1"});
        }
    }
    refused_spec([](ModelSpec& spec) { spec.num_kv_heads = 3; }, {"num_heads is 4", "multiple of num_kv_heads, 3"});
    refused_spec([](ModelSpec& spec) { spec.head_dim = 7; }, {"head_dim is 7", "even"});
}

TEST_F(CheckModel, Ropes) {
    refused_spec([](ModelSpec& spec) { spec.ropes[1].frequencies.pop_back(); },
                 {"3 frequencies and 4 magnitudes", "head_dim / 2 = 4"});
    refused_spec([](ModelSpec& spec) { spec.ropes[0].frequencies.clear(); }, {"0 frequencies", "= 4"});
    refused_spec([](ModelSpec& spec) { spec.ropes[1].magnitudes.push_back(1); },
                 {"4 frequencies and 5 magnitudes", "= 4"});
    refused_spec([](ModelSpec& spec) { spec.ropes.pop_back(); }, {"a layer has rope 1", "below 1"});
    refused_spec([](ModelSpec& spec) { spec.ropes.clear(); }, {"a layer has rope 0", "below 0"});
}

TEST_F(CheckModel, Layers) {
    refused_spec([](ModelSpec& spec) { spec.layers.pop_back(); }, {"layers has 2 elements", "num_layers, 3"});
    refused_spec([](ModelSpec& spec) { spec.layers.clear(); }, {"layers has 0 elements"});
    refused_spec([](ModelSpec& spec) { spec.layers[2].rope = 2; }, {"a layer has rope 2", "below 2"});
    refused_spec([](ModelSpec& spec) { spec.layers[2].rope = -1; }, {"a layer has rope -1", "below 2"});
    refused_spec([](ModelSpec& spec) { spec.layers[0].window = -1; }, {"window -1", "at least 0"});
    refused([](ModelSpec&, ModelWeights& weights, auto&) { weights.layers.pop_back(); },
            {"weights of 2 layers", "expected 3"});
}

TEST_F(CheckModel, Experts) {
    refused_spec([](ModelSpec& spec) { spec.experts.count = -1; }, {"experts.count is -1", "at least 1"});
    refused_spec([](ModelSpec& spec) { spec.experts.top_k = 0; }, {"experts.top_k is 0", "at least 1"});
    refused_spec([](ModelSpec& spec) { spec.experts.top_k = 4; }, {"experts.top_k is 4", "at most 3"});
    refused_spec([](ModelSpec& spec) { spec.experts.intermediate_size = 0; }, {"experts.intermediate_size is 0"});
    refused_spec([](ModelSpec& spec) { spec.experts.intermediate_size = 17; },
                 {"layers.1.experts.0.gate_proj is [16, 20]", "[17, 20]"});
    refused_spec([](ModelSpec& spec) { spec.experts.count = 4; }, {"layers.1.router is [3, 20]", "[4, 20]"});
    refused_layer(1, [](LayerWeights& layer) { layer.experts.pop_back(); },
                  {"layers.1.experts has 2 elements", "expected 3"});
    refused_layer(1, [](LayerWeights& layer) { layer.experts[2].up_proj = {}; },
                  {"layers.1.experts.2.up_proj is missing"});
    refused_layer(1, [](LayerWeights& layer) { layer.experts[1].down_proj.cols += 1; },
                  {"layers.1.experts.1.down_proj is [20, 17]", "[20, 16]"});
    refused_layer(1, [](LayerWeights& layer) { layer.router = {}; }, {"layers.1.gate_proj is missing"});
    // A router in a model without experts, of no rows: there would be nothing to compute the layer with.
    refused(
        [](ModelSpec& spec, ModelWeights& weights, auto&) {
            spec.experts.count = 0;
            weights.layers[1].router.rows = 0;
            weights.layers[1].experts.clear();
        },
        {"layers.1.router", "experts.count is 0"});
    // What no family has: experts with biases or a norm of the MLP.
    const WeightView vector = row(model_.weights.layers[0].gate_proj, 20);
    refused_layer(1, [&](LayerWeights& layer) { layer.mlp_post_norm = vector; }, {"layers.1.", "experts alone"});
    refused_layer(1, [&](LayerWeights& layer) { layer.down_bias = vector; }, {"layers.1.", "experts alone"});
    refused_layer(1, [&](LayerWeights& layer) { layer.gate_bias = layer.up_bias = row(vector, 24); },
                  {"layers.1.", "experts alone"});
}

TEST_F(CheckModel, EveryWeightHasItsShape) {
    struct Named {
        const char* name;
        WeightView LayerWeights::*member;
        bool optional;
    };
    const Named weights[] = {
        {"attention_norm", &LayerWeights::attention_norm, false},
        {"q_proj", &LayerWeights::q_proj, false},
        {"k_proj", &LayerWeights::k_proj, false},
        {"v_proj", &LayerWeights::v_proj, false},
        {"q_bias", &LayerWeights::q_bias, false},  // all of the three, or none
        {"k_bias", &LayerWeights::k_bias, false},
        {"v_bias", &LayerWeights::v_bias, false},
        {"q_norm", &LayerWeights::q_norm, true},
        {"k_norm", &LayerWeights::k_norm, true},
        {"o_proj", &LayerWeights::o_proj, false},
        {"o_bias", &LayerWeights::o_bias, true},
        {"attention_post_norm", &LayerWeights::attention_post_norm, true},
        {"mlp_norm", &LayerWeights::mlp_norm, false},
        {"gate_proj", &LayerWeights::gate_proj, false},
        {"up_proj", &LayerWeights::up_proj, false},
        {"down_proj", &LayerWeights::down_proj, false},
        {"gate_bias", &LayerWeights::gate_bias, false},  // with up_bias, or neither
        {"up_bias", &LayerWeights::up_bias, false},
        {"down_bias", &LayerWeights::down_bias, true},
        {"mlp_post_norm", &LayerWeights::mlp_post_norm, true},
    };
    for (const Named& weight : weights) {
        const WeightView& good = model_.weights.layers[0].*weight.member;
        ASSERT_TRUE(good.present()) << weight.name;
        const std::string name = "layers.0." + std::string(weight.name);
        const auto shape = [](int64_t rows, int64_t cols) {
            return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
        };
        refused_layer(0, [&](LayerWeights& layer) { (layer.*weight.member).cols += 1; },
                      {name + " is " + shape(good.rows, good.cols + 1), "expected " + shape(good.rows, good.cols)});
        refused_layer(0, [&](LayerWeights& layer) { (layer.*weight.member).rows += 1; },
                      {name + " is " + shape(good.rows + 1, good.cols), "expected " + shape(good.rows, good.cols)});
        ModelWeights without = model_.weights;
        without.layers[0].*weight.member = {};
        const auto checked = check_model(model_.spec, without, options_);
        EXPECT_EQ(checked.ok(), weight.optional) << name;
        if (!checked.ok()) {
            EXPECT_NE(checked.error().message.find("missing"), std::string::npos) << name;
        }
    }
    for (const auto& [name, member] :
         {std::pair{"embedding", &ModelWeights::embedding}, std::pair{"final_norm", &ModelWeights::final_norm},
          std::pair{"head", &ModelWeights::head}}) {
        refused([&, at = member](ModelSpec&, ModelWeights& w, auto&) { w.*at = {}; },
                {"the weight " + std::string(name) + " is missing"});
        refused([&, at = member](ModelSpec&, ModelWeights& w, auto&) { (w.*at).cols -= 1; },
                {"the weight " + std::string(name) + " is [", "expected ["});
    }
}

// The same through the backend: nothing is made of a bad spec, and a good one is still welcome.
TEST_F(CheckModel, ABackendRefusesAndLivesOn) {
    auto backend = open_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    ModelSpec bad = model_.spec;
    bad.experts.top_k = 4;
    expect_error((*backend)->create_executor(bad, model_.weights, options_, Progress()), NL_ERROR_INVALID_ARGUMENT,
                 {"experts.top_k is 4"});
    const auto made = (*backend)->create_executor(model_.spec, model_.weights, options_, Progress());
    EXPECT_TRUE(made.ok()) << made.error().message;
}

}  // namespace
}  // namespace nanolith
