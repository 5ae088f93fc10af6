// Model folders written by tests: temporary folders, safetensors files built by hand, and a tiny valid model.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "support/temp_folder.h"

namespace nanolith::testing {

using test::TempFolder;

struct FileTensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
};

// A safetensors file out of its two parts, whatever they hold.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
    std::string file;
    for (size_t i = 0; i < 8; ++i) file.push_back(static_cast<char>((uint64_t{header.size()} >> (8 * i)) & 0xFF));
    return file + header + data;
}

inline std::string safetensors_file(const std::vector<FileTensor>& tensors) {
    std::string header = R"({"__metadata__":{"format":"pt"})";
    std::string data;
    for (const FileTensor& tensor : tensors) {
        std::string shape;
        for (const int64_t size : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
        header += ",\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape +
                  "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
                  std::to_string(data.size() + tensor.bytes.size()) + "]}";
        data += tensor.bytes;
    }
    return safetensors_bytes(header + "}", data);
}

// config.json of the tiny model, as fields to be changed: name and JSON value.
using ConfigFields = std::vector<std::pair<std::string, std::string>>;

inline ConfigFields tiny_config(const std::string& architecture = "LlamaForCausalLM") {
    return {{"architectures", "[\"" + architecture + "\"]"},
            {"vocab_size", "16"},
            {"hidden_size", "8"},
            {"intermediate_size", "12"},
            {"num_hidden_layers", "2"},
            {"num_attention_heads", "2"},
            {"num_key_value_heads", "1"},
            {"head_dim", "6"},
            {"max_position_embeddings", "128"},
            {"rms_norm_eps", "1e-5"},
            {"rope_theta", "10000.0"},
            {"tie_word_embeddings", "false"},
            {"hidden_act", "\"silu\""},
            {"eos_token_id", "2"}};
}

// Twelve layers, 32 query heads and a hidden size that makes heads of 8; nothing else, so that defaults show.
inline ConfigFields bare_config(const std::string& architecture) {
    return {{"architectures", "[\"" + architecture + "\"]"},
            {"vocab_size", "16"},
            {"hidden_size", "256"},
            {"intermediate_size", "48"},
            {"num_hidden_layers", "12"},
            {"num_attention_heads", "32"},
            {"max_position_embeddings", "8192"}};
}

// `fields` with one changed or added; an empty value takes the field away.
inline ConfigFields with(ConfigFields fields, const std::string& name, const std::string& value) {
    std::erase_if(fields, [&](const auto& field) { return field.first == name; });
    if (!value.empty()) fields.emplace_back(name, value);
    return fields;
}

inline std::string json_text(const ConfigFields& fields) {
    std::string text;
    for (const auto& [name, value] : fields) text += (text.empty() ? "{\"" : ",\"") + name + "\":" + value;
    return text + "}";
}

// The weights that tiny_config asks for, in float32.
inline std::vector<FileTensor> tiny_tensors(bool qk_norm = false) {
    std::vector<FileTensor> tensors;
    uint8_t next = 1;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
        size_t bytes = 4;
        for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
        std::string data;
        for (size_t i = 0; i < bytes; ++i) data.push_back(static_cast<char>(next++));
        tensors.push_back({name, "F32", std::move(shape), std::move(data)});
    };
    add("model.embed_tokens.weight", {16, 8});
    add("model.norm.weight", {8});
    add("lm_head.weight", {16, 8});
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const std::string prefix = layer;
        add(prefix + "input_layernorm.weight", {8});
        add(prefix + "self_attn.q_proj.weight", {12, 8});
        add(prefix + "self_attn.k_proj.weight", {6, 8});
        add(prefix + "self_attn.v_proj.weight", {6, 8});
        add(prefix + "self_attn.o_proj.weight", {8, 12});
        if (qk_norm) add(prefix + "self_attn.q_norm.weight", {6});
        if (qk_norm) add(prefix + "self_attn.k_norm.weight", {6});
        add(prefix + "post_attention_layernorm.weight", {8});
        add(prefix + "mlp.gate_proj.weight", {12, 8});
        add(prefix + "mlp.up_proj.weight", {12, 8});
        add(prefix + "mlp.down_proj.weight", {8, 12});
    }
    return tensors;
}

inline void write_model(const TempFolder& folder, const ConfigFields& config, const std::vector<FileTensor>& tensors) {
    folder.write("config.json", json_text(config));
    folder.write("model.safetensors", safetensors_file(tensors));
}

// A seed that differs from run to run, printed so that a failure can be run again: NANOLITH_TEST_SEED sets it.
inline uint32_t fresh_seed() {
    const char* given = std::getenv("NANOLITH_TEST_SEED");
    const uint32_t seed =
        given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device()();
    std::printf("seed: %u (NANOLITH_TEST_SEED)\n", seed);
    return seed;
}

// Checks that `result` is the error `status` and that its message has all of `parts`.
template <typename T>
void expect_error(const Result<T>& result, nl_status status, const std::vector<std::string>& parts) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().status, status) << result.error().message;
    for (const std::string& part : parts) {
        EXPECT_NE(result.error().message.find(part), std::string::npos)
            << "\"" << part << "\" is not in: " << result.error().message;
    }
}

}  // namespace nanolith::testing
