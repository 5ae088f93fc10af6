// Weights that lie otherwise in their files than they are used: 8-bit floats with scales, fused projections, heads in
// another order, experts.
#include <cstring>

#include "backend/read_weight.h"
#include "model/model.h"
#include "support/model_files.h"

namespace nanolith::testing {
namespace {

using Tensors = std::vector<FileTensor>;

Result<std::unique_ptr<Model>> load(const TempFolder& folder, const ConfigFields& config, const Tensors& tensors) {
    write_model(folder, config, tensors);
    return load_model(folder.path());
}

FileTensor floats(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return {name, "F32", std::move(shape), std::move(bytes)};
}

// `rows` times `cols` numbers that name their place.
FileTensor counted(const std::string& name, std::vector<int64_t> shape) {
    int64_t size = 1;
    for (const int64_t side : shape) size *= side;
    std::vector<float> values;
    for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(i));
    return floats(name, std::move(shape), values);
}

void replace(Tensors& tensors, const FileTensor& tensor) {
    std::erase_if(tensors, [&](const FileTensor& other) { return other.name == tensor.name; });
    tensors.push_back(tensor);
}

std::vector<float> values_of(const WeightView& weight) {
    std::vector<float> values(weight.rows * weight.cols);
    read_weight(weight, 0, weight.rows * weight.cols, values.data());
    return values;
}

const std::string kUp = "model.layers.1.mlp.up_proj.weight";  // [12, 8]
const std::string kByTensor = R"({"quant_method": "fp8"})";
const std::string kByBlock = R"({"quant_method": "fp8", "weight_block_size": [5, 3]})";

// All of the matrix is 1.0 in 8 bits, so what is read are its scales.
Tensors ones_with_scale(const FileTensor& scale) {
    Tensors tensors = tiny_tensors();
    replace(tensors, {kUp, "F8_E4M3", {12, 8}, std::string(96, '\x38')});
    tensors.push_back(scale);
    return tensors;
}

TEST(LoadWeights, ScalesOfTheMatrixItsRowsAndItsBlocks) {
    const TempFolder folder;
    const auto read = [&](const std::string& quantization, const FileTensor& scale) {
        const auto model =
            load(folder, with(tiny_config(), "quantization_config", quantization), ones_with_scale(scale));
        EXPECT_TRUE(model.ok()) << model.error().message;
        return model.ok() ? values_of((*model)->weights.layers[1].up_proj) : std::vector<float>(96);
    };
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {1}, {1, 1}}) {
        EXPECT_EQ(read(kByTensor, floats(kUp + "_scale", shape, {2.5F})), std::vector<float>(96, 2.5F));
        EXPECT_EQ(read(kByBlock, floats(kUp + "_scale_inv", shape, {2.5F})), std::vector<float>(96, 2.5F));
    }
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{12}, {12, 1}}) {
        const auto values = read(R"({"quant_method": "fbgemm_fp8"})", counted(kUp + "_scale", shape));
        for (size_t i = 0; i < 96; ++i) {
            const size_t row = i / 8;
            ASSERT_EQ(values[i], static_cast<float>(row)) << i;
        }
    }
    // Blocks of 5 rows and 3 columns: three by three of them, those at the end smaller.
    for (const char* end : {"_scale_inv", "_scale"}) {
        const auto values = read(kByBlock, counted(kUp + end, {3, 3}));
        for (size_t i = 0; i < 96; ++i) {
            const size_t block = i / 8 / 5 * 3 + i % 8 / 3;
            ASSERT_EQ(values[i], static_cast<float>(block)) << i;
        }
    }
    // bfloat16 scales: 1.5 is 0x3FC0.
    EXPECT_EQ(read(kByTensor, {kUp + "_scale", "BF16", {1}, std::string("\xC0\x3F")}), std::vector<float>(96, 1.5F));
}

TEST(LoadWeights, RefusesScalesThatDoNotFit) {
    const TempFolder folder;
    const auto refused = [&](const std::string& quantization, const FileTensor& scale, nl_status status,
                             const std::vector<std::string>& parts) {
        expect_error(load(folder, with(tiny_config(), "quantization_config", quantization), ones_with_scale(scale)),
                     status, parts);
    };
    refused(kByTensor, counted("unrelated", {1}), NL_ERROR_BAD_MODEL, {kUp + "_scale is missing", "scales of " + kUp});
    refused(kByTensor, counted(kUp + "_scale", {3, 3}), NL_ERROR_BAD_MODEL,
            {kUp + "_scale has the shape [3, 3]", "expected [1], [12, 1]"});
    refused(kByTensor, counted(kUp + "_scale", {8}), NL_ERROR_BAD_MODEL, {kUp + "_scale has the shape [8]"});
    refused(kByBlock, counted(kUp + "_scale_inv", {2, 3}), NL_ERROR_BAD_MODEL,
            {kUp + "_scale_inv has the shape [2, 3]", "[3, 3]"});
    refused(kByTensor, {kUp + "_scale", "F64", {1}, std::string(8, '\0')}, NL_ERROR_UNSUPPORTED,
            {kUp + "_scale", "\"F64\"", "F32, F16 or BF16"});
    refused(kByTensor, {kUp + "_scale", "F8_E4M3", {1}, "8"}, NL_ERROR_UNSUPPORTED, {kUp + "_scale", "F8_E4M3"});
    // 8-bit weights need the config's word; vectors are never such.
    expect_error(load(folder, tiny_config(), ones_with_scale(counted(kUp + "_scale", {1}))), NL_ERROR_UNSUPPORTED,
                 {kUp, "F8_E4M3", "where config.json has no fp8 quantization"});
    Tensors tensors = tiny_tensors();
    replace(tensors, {"model.norm.weight", "F8_E4M3", {8}, std::string(8, '8')});
    expect_error(load(folder, with(tiny_config(), "quantization_config", kByTensor), tensors), NL_ERROR_UNSUPPORTED,
                 {"model.norm.weight", "F8_E4M3"});
    replace(tensors, {"model.norm.weight", "F8_E5M2", {8}, std::string(8, '8')});
    expect_error(load(folder, with(tiny_config(), "quantization_config", kByTensor), tensors), NL_ERROR_UNSUPPORTED,
                 {"model.norm.weight", "F8_E5M2"});
}

TEST(LoadWeights, EightBitProjectionsAreComputedInSixteen) {
    const TempFolder folder;
    Tensors tensors = tiny_tensors();
    for (FileTensor& tensor : tensors) {
        if (tensor.shape.size() != 2) continue;
        const bool quantized = tensor.name.find("_proj") != std::string::npos;
        tensor.dtype = quantized ? "F8_E4M3" : "BF16";
        tensor.bytes.resize(tensor.bytes.size() / (quantized ? 4 : 2));
    }
    const Tensors before = tensors;
    for (const FileTensor& tensor : before) {
        if (tensor.dtype == "F8_E4M3") tensors.push_back(floats(tensor.name + "_scale", {1}, {1.0F}));
    }
    const auto model = load(folder, with(tiny_config(), "quantization_config", kByTensor), tensors);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->file_dtype, DType::bf16);
    EXPECT_EQ((*model)->weights.layers[0].q_proj.dtype, DType::f8_e4m3);
}

// Phi-3: q, k and v are rows of one matrix, gate and up of another. Scales of blocks run through the parts.
TEST(LoadWeights, FusedProjections) {
    const TempFolder folder;
    Tensors tensors = tiny_tensors();
    std::erase_if(tensors, [](const FileTensor& tensor) {
        for (const char* part : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}) {
            if (tensor.name.find(part) != std::string::npos) return true;
        }
        return false;
    });
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        tensors.push_back(counted(std::string(layer) + "self_attn.qkv_proj.weight", {24, 8}));
        const std::string fused = std::string(layer) + "mlp.gate_up_proj.weight";
        tensors.push_back({fused, "F8_E4M3", {24, 8}, std::string(192, '\x38')});
        tensors.push_back(counted(fused + "_scale_inv", {5, 3}));
    }
    const auto config = with(tiny_config("Phi3ForCausalLM"), "quantization_config", kByBlock);
    const auto model = load(folder, config, tensors);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const LayerWeights& layer = (*model)->weights.layers[1];
    const std::tuple<const WeightView*, int64_t, int64_t> parts[] = {
        {&layer.q_proj, 0, 12}, {&layer.k_proj, 12, 6}, {&layer.v_proj, 18, 6}};
    for (const auto& [view, first, rows] : parts) {
        EXPECT_EQ(view->rows, rows);
        EXPECT_EQ(view->cols, 8);
        const auto values = values_of(*view);
        for (size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], static_cast<float>(first * 8) + static_cast<float>(i));
    }
    for (const auto& [view, first] : {std::pair{&layer.gate_proj, size_t{0}}, std::pair{&layer.up_proj, size_t{12}}}) {
        EXPECT_EQ(view->rows, 12);
        const auto values = values_of(*view);
        for (size_t i = 0; i < values.size(); ++i) {
            const size_t block = (first + i / 8) / 5 * 3 + i % 8 / 3;
            ASSERT_EQ(values[i], static_cast<float>(block)) << first << " + " << i;
        }
    }
    std::erase_if(tensors, [](const FileTensor& t) { return t.name == "model.layers.0.self_attn.qkv_proj.weight"; });
    expect_error(load(folder, config, tensors), NL_ERROR_BAD_MODEL,
                 {"model.layers.0.self_attn.qkv_proj.weight is missing", "[24, 8]"});
}

// ERNIE's pairs are neighbours: elements 0, 2, 4 and then 1, 3, 5 of each head, in projections and biases.
TEST(LoadWeights, InterleavedHeadsAreReordered) {
    const TempFolder folder;
    Tensors tensors = tiny_tensors();
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const std::string prefix = layer;
        replace(tensors, counted(prefix + "self_attn.q_proj.weight", {12, 8}));
        for (const auto& [name, size] : std::vector<std::pair<std::string, int64_t>>{{"self_attn.q_proj", 12},
                                                                                     {"self_attn.k_proj", 6},
                                                                                     {"self_attn.v_proj", 6},
                                                                                     {"self_attn.o_proj", 8},
                                                                                     {"mlp.gate_proj", 12},
                                                                                     {"mlp.up_proj", 12},
                                                                                     {"mlp.down_proj", 8}}) {
            tensors.push_back(counted(prefix + name + ".bias", {size}));
        }
    }
    const auto model = load(folder, with(tiny_config("Ernie4_5ForCausalLM"), "use_bias", "true"), tensors);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const LayerWeights& layer = (*model)->weights.layers[1];
    EXPECT_EQ(values_of(layer.q_bias), std::vector<float>({0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
    EXPECT_EQ(values_of(layer.k_bias), std::vector<float>({0, 2, 4, 1, 3, 5}));
    EXPECT_EQ(values_of(layer.v_bias), std::vector<float>({0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(values_of(layer.o_bias), std::vector<float>({0, 1, 2, 3, 4, 5, 6, 7}));
    const auto rows = values_of(layer.q_proj);
    for (size_t i = 0; i < 12; ++i) {
        const float first[] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
        EXPECT_EQ(rows[8 * i], 8 * first[i]) << i;
    }
}

// Experts by the names of the two families; layers without them have an MLP.
TEST(LoadWeights, Experts) {
    const TempFolder folder;
    const auto with_experts = [](const std::string& gate, const std::string& expert, const char* const* names,
                                 std::initializer_list<int> layers, int64_t inner) {
        Tensors tensors = tiny_tensors(true);
        for (const int layer : layers) {
            const std::string prefix = "model.layers." + std::to_string(layer) + ".";
            std::erase_if(tensors, [&](const FileTensor& t) { return t.name.starts_with(prefix + "mlp."); });
            tensors.push_back(counted(prefix + gate, {3, 8}));
            for (int i = 0; i < 3; ++i) {
                const std::string at = prefix + expert + std::to_string(i) + ".";
                tensors.push_back(
                    floats(at + names[0], {inner, 8},
                           std::vector<float>(static_cast<size_t>(inner) * 8, 10.0F + static_cast<float>(i))));
                tensors.push_back(
                    floats(at + names[1], {inner, 8},
                           std::vector<float>(static_cast<size_t>(inner) * 8, 20.0F + static_cast<float>(i))));
                tensors.push_back(
                    floats(at + names[2], {8, inner},
                           std::vector<float>(static_cast<size_t>(inner) * 8, 30.0F + static_cast<float>(i))));
            }
        }
        return tensors;
    };
    const auto check = [](const LayerWeights& layer, int64_t inner) {
        EXPECT_EQ(layer.router.rows, 3);
        ASSERT_EQ(layer.experts.size(), 3U);
        EXPECT_FALSE(layer.gate_proj.present());
        for (size_t i = 0; i < 3; ++i) {
            const ExpertWeights& expert = layer.experts[i];
            EXPECT_EQ(expert.gate_proj.rows, inner);
            EXPECT_EQ(expert.down_proj.cols, inner);
            EXPECT_EQ(values_of(expert.gate_proj)[3], 10.0F + static_cast<float>(i));
            EXPECT_EQ(values_of(expert.up_proj)[3], 20.0F + static_cast<float>(i));
            EXPECT_EQ(values_of(expert.down_proj)[3], 30.0F + static_cast<float>(i));
        }
    };
    const char* const qwen[] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
    auto config = tiny_config("Qwen3MoeForCausalLM");
    for (const auto& [name, value] : ConfigFields{{"num_experts", "3"},
                                                  {"num_experts_per_tok", "2"},
                                                  {"moe_intermediate_size", "5"},
                                                  {"mlp_only_layers", "[0]"}}) {
        config = with(config, name, value);
    }
    Tensors tensors = with_experts("mlp.gate.weight", "mlp.experts.", qwen, {1}, 5);
    const auto model = load(folder, config, tensors);
    ASSERT_TRUE(model.ok()) << model.error().message;
    check((*model)->weights.layers[1], 5);
    EXPECT_FALSE((*model)->weights.layers[0].router.present());
    EXPECT_EQ((*model)->weights.layers[0].gate_proj.rows, 12);
    int64_t elements = 0;
    for (const FileTensor& tensor : tensors) elements += static_cast<int64_t>(tensor.bytes.size()) / 4;
    EXPECT_EQ((*model)->num_parameters, elements);
    tensors.pop_back();
    expect_error(load(folder, config, tensors), NL_ERROR_BAD_MODEL,
                 {"model.layers.1.mlp.experts.2.down_proj.weight is missing", "[8, 5]"});

    const char* const mixtral[] = {"w1.weight", "w3.weight", "w2.weight"};
    config = with(with(tiny_config("MixtralForCausalLM"), "num_local_experts", "3"), "num_experts_per_tok", "1");
    const auto second = load(
        folder, config, with_experts("block_sparse_moe.gate.weight", "block_sparse_moe.experts.", mixtral, {0, 1}, 12));
    ASSERT_TRUE(second.ok()) << second.error().message;
    check((*second)->weights.layers[0], 12);
    check((*second)->weights.layers[1], 12);
}

// Gemma: four norms a layer, each from its own tensor.
TEST(LoadWeights, PostNorms) {
    const TempFolder folder;
    Tensors tensors = tiny_tensors(true);
    const char* const names[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                 "post_feedforward_layernorm"};
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        for (size_t i = 0; i < 4; ++i) {
            replace(tensors, floats(std::string(layer) + names[i] + ".weight", {8},
                                    std::vector<float>(8, static_cast<float>(i))));
        }
    }
    auto config = with(tiny_config("Gemma3ForCausalLM"), "hidden_activation", "\"gelu_pytorch_tanh\"");
    const auto model = load(folder, config, tensors);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const LayerWeights& layer = (*model)->weights.layers[1];
    EXPECT_EQ(values_of(layer.attention_norm)[0], 0.0F);
    EXPECT_EQ(values_of(layer.attention_post_norm)[0], 1.0F);
    EXPECT_EQ(values_of(layer.mlp_norm)[0], 2.0F);
    EXPECT_EQ(values_of(layer.mlp_post_norm)[0], 3.0F);
}

}  // namespace
}  // namespace nanolith::testing
