#include <numeric>
#include <string_view>

#include "model/model.h"
#include "support/model_files.h"

namespace nanolith::testing {
namespace {

// The tensor called `name`, to be changed.
FileTensor& tensor_named(std::vector<FileTensor>& tensors, std::string_view name) {
    for (FileTensor& tensor : tensors) {
        if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name << " is not in the tiny model";
    return tensors.front();
}

std::string bytes_of(const WeightView& weight) {
    return {reinterpret_cast<const char*>(weight.data), weight.bytes()};
}

TEST(LoadModel, FindsEveryWeight) {
    const TempFolder folder;
    auto tensors = tiny_tensors();
    write_model(folder, tiny_config(), tensors);
    const auto loaded = load_model(folder.path());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const Model& model = **loaded;
    EXPECT_EQ(model.architecture, "LlamaForCausalLM");
    EXPECT_EQ(model.spec.num_layers, 2);
    EXPECT_EQ(model.file_dtype, DType::f32);
    EXPECT_EQ(model.end_tokens, std::vector<int32_t>({2}));
    int64_t elements = 0;
    for (const FileTensor& tensor : tensors) elements += static_cast<int64_t>(tensor.bytes.size()) / 4;
    EXPECT_EQ(model.num_parameters, elements);

    EXPECT_EQ(bytes_of(model.weights.embedding), tensor_named(tensors, "model.embed_tokens.weight").bytes);
    EXPECT_EQ(bytes_of(model.weights.head), tensor_named(tensors, "lm_head.weight").bytes);
    EXPECT_EQ(bytes_of(model.weights.final_norm), tensor_named(tensors, "model.norm.weight").bytes);
    ASSERT_EQ(model.weights.layers.size(), 2U);
    const LayerWeights& layer = model.weights.layers[1];
    const std::string prefix = "model.layers.1.";
    const std::vector<std::pair<const WeightView*, std::string>> expected = {
        {&layer.attention_norm, "input_layernorm"}, {&layer.mlp_norm, "post_attention_layernorm"},
        {&layer.q_proj, "self_attn.q_proj"},        {&layer.k_proj, "self_attn.k_proj"},
        {&layer.v_proj, "self_attn.v_proj"},        {&layer.o_proj, "self_attn.o_proj"},
        {&layer.gate_proj, "mlp.gate_proj"},        {&layer.up_proj, "mlp.up_proj"},
        {&layer.down_proj, "mlp.down_proj"}};
    for (const auto& [weight, name] : expected) {
        const FileTensor& tensor = tensor_named(tensors, prefix + name + ".weight");
        EXPECT_EQ(bytes_of(*weight), tensor.bytes) << name;
        EXPECT_EQ(weight->cols, tensor.shape.back()) << name;
        EXPECT_EQ(weight->rows, tensor.shape.size() == 2 ? tensor.shape.front() : 1) << name;
    }
    for (const WeightView* weight : {&layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.q_norm, &layer.k_norm}) {
        EXPECT_FALSE(weight->present());
    }
}

TEST(LoadModel, OptionalPartsFollowTheArchitectureAndTheConfig) {
    const TempFolder folder;
    write_model(folder, tiny_config("Qwen3ForCausalLM"), tiny_tensors(true));
    const auto qwen = load_model(folder.path());
    ASSERT_TRUE(qwen.ok()) << qwen.error().message;
    EXPECT_EQ((*qwen)->weights.layers[0].q_norm.cols, 6);
    EXPECT_TRUE((*qwen)->weights.layers[1].k_norm.present());

    auto tensors = tiny_tensors();
    for (const char* layer : {"0", "1"}) {
        const std::string prefix = "model.layers." + std::string(layer) + ".self_attn.";
        tensors.push_back({prefix + "q_proj.bias", "F32", {12}, std::string(48, 'q')});
        tensors.push_back({prefix + "k_proj.bias", "F32", {6}, std::string(24, 'k')});
        tensors.push_back({prefix + "v_proj.bias", "F32", {6}, std::string(24, 'v')});
    }
    write_model(folder, with(tiny_config(), "attention_bias", "true"), tensors);
    const auto biased = load_model(folder.path());
    ASSERT_TRUE(biased.ok()) << biased.error().message;
    EXPECT_EQ(bytes_of((*biased)->weights.layers[1].v_bias), std::string(24, 'v'));

    // Some have a bias of o_proj beside the three; a layer that has none adds none.
    EXPECT_FALSE((*biased)->weights.layers[1].o_bias.present());
    tensors.push_back({"model.layers.1.self_attn.o_proj.bias", "F32", {8}, std::string(32, 'o')});
    write_model(folder, with(tiny_config(), "attention_bias", "true"), tensors);
    const auto with_output = load_model(folder.path());
    ASSERT_TRUE(with_output.ok()) << with_output.error().message;
    EXPECT_EQ(bytes_of((*with_output)->weights.layers[1].o_bias), std::string(32, 'o'));
    EXPECT_FALSE((*with_output)->weights.layers[0].o_bias.present());
    tensors.back().shape = {2, 4};
    write_model(folder, with(tiny_config(), "attention_bias", "true"), tensors);
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL,
                 {"model.layers.1.self_attn.o_proj.bias", "[2, 4]", "[8]"});
    // Biases that the config does not speak of are left alone, as the reference does.
    write_model(folder, tiny_config(), tensors);
    const auto silent = load_model(folder.path());
    ASSERT_TRUE(silent.ok()) << silent.error().message;
    EXPECT_FALSE((*silent)->weights.layers[1].q_bias.present());
}

TEST(LoadModel, BiasesOfTheMlp) {
    const TempFolder folder;
    auto tensors = tiny_tensors();
    for (const char* layer : {"0", "1"}) {
        const std::string prefix = "model.layers." + std::string(layer) + ".mlp.";
        tensors.push_back({prefix + "gate_proj.bias", "F32", {12}, std::string(48, 'g')});
        tensors.push_back({prefix + "up_proj.bias", "F32", {12}, std::string(48, 'u')});
        tensors.push_back({prefix + "down_proj.bias", "F32", {8}, std::string(32, 'd')});
    }
    write_model(folder, with(tiny_config(), "mlp_bias", "true"), tensors);
    const auto biased = load_model(folder.path());
    ASSERT_TRUE(biased.ok()) << biased.error().message;
    const LayerWeights& layer = (*biased)->weights.layers[0];
    EXPECT_EQ(bytes_of(layer.gate_bias), std::string(48, 'g'));
    EXPECT_EQ(bytes_of(layer.up_bias), std::string(48, 'u'));
    EXPECT_EQ(bytes_of(layer.down_bias), std::string(32, 'd'));
    tensors.pop_back();
    write_model(folder, with(tiny_config(), "mlp_bias", "true"), tensors);
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"model.layers.1.mlp.down_proj.bias", "missing"});
}

// Transformers ties nothing where the file has a head of its own.
TEST(LoadModel, AHeadInTheFileCountsMoreThanATie) {
    const TempFolder folder;
    write_model(folder, with(tiny_config(), "tie_word_embeddings", "true"), tiny_tensors());
    const auto model = load_model(folder.path());
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_NE((*model)->weights.head.data, (*model)->weights.embedding.data);
}

TEST(LoadModel, SaysWhatOtherWeightsAFolderHas) {
    for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth",
                             "consolidated.safetensors", "adapter_model.safetensors", "tf_model.h5"}) {
        const TempFolder folder;
        folder.write("config.json", json_text(tiny_config()));
        folder.write(name, "x");
        expect_error(load_model(folder.path()), NL_ERROR_UNSUPPORTED,
                     {name, "expected model.safetensors or model.safetensors.index.json", "What gives it"});
    }
}

TEST(LoadModel, ATiedHeadIsTheEmbeddingAndCountsOnce) {
    const TempFolder folder;
    auto tensors = tiny_tensors();
    std::erase_if(tensors, [](const FileTensor& tensor) { return tensor.name == "lm_head.weight"; });
    write_model(folder, tiny_config(), tensors);
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"lm_head.weight", "missing", "[16, 8]"});
    write_model(folder, with(tiny_config(), "tie_word_embeddings", "true"), tensors);
    const auto model = load_model(folder.path());
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->weights.head.data, (*model)->weights.embedding.data);
    int64_t elements = 0;
    for (const FileTensor& tensor : tensors) elements += static_cast<int64_t>(tensor.bytes.size()) / 4;
    EXPECT_EQ((*model)->num_parameters, elements);
}

TEST(LoadModel, ReadsShardsThroughTheIndex) {
    const TempFolder folder;
    const auto tensors = tiny_tensors();
    const std::vector<FileTensor> first(tensors.begin(), tensors.begin() + 7);
    const std::vector<FileTensor> second(tensors.begin() + 7, tensors.end());
    folder.write("config.json", json_text(tiny_config()));
    folder.write("a.safetensors", safetensors_file(first));
    folder.write("b.safetensors", safetensors_file(second));
    const auto index = [&](const std::string& name_of_second) {
        std::string map;
        for (const FileTensor& tensor : first) map += "\"" + tensor.name + "\":\"a.safetensors\",";
        for (const FileTensor& tensor : second) map += "\"" + tensor.name + "\":\"" + name_of_second + "\",";
        map.pop_back();
        return R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}";
    };
    folder.write("model.safetensors.index.json", index("b.safetensors"));
    const auto model = load_model(folder.path());
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->files.size(), 2U);
    EXPECT_EQ(bytes_of((*model)->weights.layers[1].down_proj), tensors.back().bytes);

    folder.write("model.safetensors.index.json", index("c.safetensors"));
    expect_error(load_model(folder.path()), NL_ERROR_NOT_FOUND, {"c.safetensors"});
    folder.write("model.safetensors.index.json", index("a.safetensors"));
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"a.safetensors", second.front().name.substr(0, 14)});
    // Names that lead out of the folder are refused before anything is opened.
    for (const std::string name : {"../b.safetensors", "/etc/passwd", "..", "x/b.safetensors", "", "b\\u0000"}) {
        folder.write("model.safetensors.index.json", index(name));
        expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"weight_map", "same folder"});
    }
    for (const char* text :
         {"{}", R"({"weight_map":[]})", R"({"weight_map":null})", R"({"weight_map":{"a":1}})", "x"}) {
        folder.write("model.safetensors.index.json", text);
        expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"index.json"});
    }
    // An index that leaves tensors out is an index of an incomplete model.
    folder.write("model.safetensors.index.json", R"({"weight_map":{}})");
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"model.embed_tokens.weight", "missing"});
}

TEST(LoadModel, NamesFilesThatAreMissing) {
    const TempFolder folder;
    expect_error(load_model(folder.file("none")), NL_ERROR_NOT_FOUND, {folder.file("none") + "/config.json"});
    expect_error(load_model(folder.path()), NL_ERROR_NOT_FOUND, {"config.json"});
    folder.write("config.json", json_text(tiny_config()));
    expect_error(load_model(folder.path()), NL_ERROR_NOT_FOUND,
                 {folder.path(), "model.safetensors", "model.safetensors.index.json"});
    expect_error(load_model(""), NL_ERROR_NOT_FOUND, {"config.json"});
}

TEST(LoadModel, NamesEveryTensorThatIsMissingOrMisshapen) {
    const auto good = tiny_tensors(true);
    for (const FileTensor& victim : good) {
        SCOPED_TRACE(victim.name);
        const TempFolder folder;
        auto tensors = good;
        std::erase_if(tensors, [&](const FileTensor& tensor) { return tensor.name == victim.name; });
        write_model(folder, tiny_config("Qwen3ForCausalLM"), tensors);
        expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {victim.name, "missing"});

        // The same number of elements in another shape.
        tensors = good;
        FileTensor& reshaped = tensor_named(tensors, victim.name);
        std::string found = "[1, " + std::to_string(reshaped.shape.front()) + "]";
        if (reshaped.shape.size() == 2) {
            std::swap(reshaped.shape[0], reshaped.shape[1]);
            found = "[" + std::to_string(reshaped.shape[0]) + ", " + std::to_string(reshaped.shape[1]) + "]";
        } else {
            reshaped.shape.insert(reshaped.shape.begin(), 1);
        }
        write_model(folder, tiny_config("Qwen3ForCausalLM"), tensors);
        expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {victim.name, found, "expected ["});
    }
}

TEST(LoadModel, RefusesConfigsThatTheTensorsDoNotFit) {
    const TempFolder folder;
    for (const auto& [name, value] : ConfigFields{{"vocab_size", "17"},
                                                  {"hidden_size", "16"},
                                                  {"intermediate_size", "13"},
                                                  {"num_hidden_layers", "3"},
                                                  {"num_hidden_layers", "4096"},
                                                  {"num_attention_heads", "4"},
                                                  {"num_key_value_heads", "2"},
                                                  {"head_dim", "8"},
                                                  {"head_dim", "null"}}) {
        SCOPED_TRACE(name + " = " + value);
        write_model(folder, with(tiny_config(), name, value), tiny_tensors());
        expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {folder.path(), "tensor "});
    }
}

TEST(LoadModel, TakesThreeDtypesMixedAndRefusesOthersThatItNeeds) {
    const TempFolder folder;
    const auto convert = [](FileTensor& tensor, const char* dtype, size_t element_bytes) {
        tensor.dtype = dtype;
        tensor.bytes.resize(tensor.bytes.size() / 4 * element_bytes);
    };
    auto tensors = tiny_tensors();
    for (FileTensor& tensor : tensors) {
        if (tensor.shape.size() == 2) convert(tensor, "BF16", 2);
    }
    convert(tensor_named(tensors, "model.norm.weight"), "F16", 2);
    write_model(folder, tiny_config(), tensors);
    const auto mixed = load_model(folder.path());
    ASSERT_TRUE(mixed.ok()) << mixed.error().message;
    EXPECT_EQ((*mixed)->file_dtype, DType::bf16);
    EXPECT_EQ((*mixed)->weights.final_norm.dtype, DType::f16);
    EXPECT_EQ((*mixed)->weights.layers[0].mlp_norm.dtype, DType::f32);

    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F64", {3}, std::string(24, 'x')});
    write_model(folder, tiny_config(), tensors);
    EXPECT_TRUE(load_model(folder.path()).ok());

    convert(tensor_named(tensors, "model.layers.1.mlp.up_proj.weight"), "F8_E4M3", 1);
    tensor_named(tensors, "model.layers.1.mlp.up_proj.weight").bytes.resize(96);
    write_model(folder, tiny_config(), tensors);
    expect_error(load_model(folder.path()), NL_ERROR_UNSUPPORTED, {"model.layers.1.mlp.up_proj.weight", "F8_E4M3"});
}

TEST(LoadModel, GenerationConfigHasTheLastWordOnEndTokens) {
    const TempFolder folder;
    write_model(folder, tiny_config(), tiny_tensors());
    folder.write("generation_config.json", R"({"eos_token_id": [5, 7]})");
    EXPECT_EQ((*load_model(folder.path()))->end_tokens, std::vector<int32_t>({5, 7}));
    folder.write("generation_config.json", R"({"temperature": 0.6})");
    EXPECT_EQ((*load_model(folder.path()))->end_tokens, std::vector<int32_t>({2}));
    folder.write("generation_config.json", R"({"eos_token_id": 99})");
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"generation_config.json", "99"});
    folder.write("generation_config.json", "{");
    expect_error(load_model(folder.path()), NL_ERROR_BAD_MODEL, {"generation_config.json"});
}

// Reads every byte of every weight, so that a sanitizer or the kernel sees a view that is out of its file.
uint64_t touch(const Model& model) {
    uint64_t sum = 0;
    const auto read = [&sum](const WeightView& weight) {
        sum = std::accumulate(weight.data, weight.data + (weight.present() ? weight.bytes() : 0), sum,
                              [](uint64_t total, std::byte byte) { return total + std::to_integer<uint64_t>(byte); });
    };
    for (const auto& weight : {model.weights.embedding, model.weights.final_norm, model.weights.head}) read(weight);
    for (const LayerWeights& layer : model.weights.layers) {
        for (const auto& weight : {layer.attention_norm, layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj,
                                   layer.mlp_norm, layer.gate_proj, layer.up_proj, layer.down_proj}) {
            read(weight);
        }
    }
    return sum;
}

TEST(LoadModel, EveryTruncationOfTheWeightsIsAnError) {
    const TempFolder folder;
    folder.write("config.json", json_text(tiny_config()));
    const std::string file = safetensors_file(tiny_tensors());
    folder.write("model.safetensors", file);
    ASSERT_TRUE(load_model(folder.path()).ok());
    for (size_t size = file.size(); size-- > 0;) {
        std::filesystem::resize_file(folder.file("model.safetensors"), size);
        ASSERT_FALSE(load_model(folder.path()).ok()) << size;
    }
}

TEST(LoadModel, RandomDamageGivesAnErrorOrAModelInsideItsFiles) {
    const TempFolder folder;
    const std::string config = json_text(tiny_config());
    const std::string weights = safetensors_file(tiny_tensors());
    const size_t header = weights.find("]}}") + 3;
    std::mt19937 random(fresh_seed());
    const std::string likely = "0123456789{}[],:\"";
    int refused = 0;
    for (int round = 0; round < 4000; ++round) {
        std::string damaged_config = config;
        std::string damaged_weights = weights;
        const int flips = 1 + static_cast<int>(random() % 3);
        for (int i = 0; i < flips; ++i) {
            char& byte =
                random() % 3 == 0 ? damaged_config[random() % config.size()] : damaged_weights[random() % header];
            if (random() % 2 == 0) {
                byte = static_cast<char>(byte ^ (1 << (random() % 8)));
            } else {
                byte = likely[random() % likely.size()];
            }
        }
        folder.write("config.json", damaged_config);
        folder.write("model.safetensors", damaged_weights);
        const auto model = load_model(folder.path());
        if (model.ok()) {
            EXPECT_GT(touch(**model), 0U);
        } else {
            EXPECT_TRUE(model.error().status == NL_ERROR_BAD_MODEL || model.error().status == NL_ERROR_UNSUPPORTED)
                << model.error().message;
            EXPECT_FALSE(model.error().message.empty());
            ++refused;
        }
    }
    EXPECT_GT(refused, 1000);  // else the damage was none
}

}  // namespace
}  // namespace nanolith::testing
