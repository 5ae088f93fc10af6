// Model folders of known models' shapes with random weights in bfloat16, for programs that know the library by its
// public header alone, and for peers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "bench/known_models.h"

namespace nanolith::bench {

// One safetensors file's tensors of 16-bit elements: the values are random, of either sign from 2^-6 to 2^-5, those of
// norms 1.
class FolderTensors {
  public:
    explicit FolderTensors(const Shape& shape) {
        const int64_t hidden = shape.hidden;
        add("model.embed_tokens.weight", shape.vocab, hidden);
        if (!shape.tied) add("lm_head.weight", shape.vocab, hidden);
        for (int32_t layer = 0; layer < shape.layers; ++layer)
            add_layer(shape, "model.layers." + std::to_string(layer) + ".");
        add("model.norm.weight", hidden);
    }

    [[nodiscard]] std::string header() const {
        std::string text = "{";
        int64_t at = 0;
        for (const Tensor& tensor : tensors_) {
            const std::string shape =
                (tensor.rows > 0 ? std::to_string(tensor.rows) + "," : "") + std::to_string(tensor.cols);
            const int64_t end = at + 2 * tensor.size();
            text += (at == 0 ? "\"" : ",\"") + tensor.name + R"(":{"dtype":"BF16","shape":[)" + shape +
                    R"(],"data_offsets":[)" + std::to_string(at) + "," + std::to_string(end) + "]}";
            at = end;
        }
        return text + "}";
    }

    void write_data(std::ofstream& file) const {
        std::mt19937 random(1);
        std::vector<uint16_t> values(size_t{1} << 22);
        for (uint16_t& value : values) value = static_cast<uint16_t>((random() & 0x807fU) | 0x3c80U);
        const std::vector<uint16_t> ones(values.size(), 0x3f80);
        for (const Tensor& tensor : tensors_) {
            const std::vector<uint16_t>& from = tensor.rows == 0 ? ones : values;
            for (int64_t left = tensor.size(); left > 0;) {
                const int64_t now = std::min<int64_t>(left, static_cast<int64_t>(from.size()));
                file.write(reinterpret_cast<const char*>(from.data()), 2 * now);
                left -= now;
            }
        }
    }

  private:
    struct Tensor {
        std::string name;
        int64_t rows = 0;  // 0: a vector
        int64_t cols = 0;
        [[nodiscard]] int64_t size() const { return std::max<int64_t>(rows, 1) * cols; }
    };

    void add(const std::string& name, int64_t rows, int64_t cols) { tensors_.push_back({name, rows, cols}); }
    void add(const std::string& name, int64_t size) { tensors_.push_back({name, 0, size}); }

    void add_layer(const Shape& shape, const std::string& at) {
        const int64_t hidden = shape.hidden;
        const int64_t queries = int64_t{shape.heads} * shape.head_dim;
        const int64_t keys = int64_t{shape.kv_heads} * shape.head_dim;
        add(at + "input_layernorm.weight", hidden);
        add(at + "self_attn.q_proj.weight", queries, hidden);
        add(at + "self_attn.k_proj.weight", keys, hidden);
        add(at + "self_attn.v_proj.weight", keys, hidden);
        add(at + "self_attn.o_proj.weight", hidden, queries);
        if (shape.qk_norm) {
            add(at + "self_attn.q_norm.weight", shape.head_dim);
            add(at + "self_attn.k_norm.weight", shape.head_dim);
        }
        add(at + "post_attention_layernorm.weight", hidden);
        if (shape.experts.count == 0) return add_mlp(at + "mlp.", hidden, shape.intermediate);
        add(at + "mlp.gate.weight", shape.experts.count, hidden);
        for (int32_t i = 0; i < shape.experts.count; ++i)
            add_mlp(at + "mlp.experts." + std::to_string(i) + ".", hidden, shape.experts.intermediate_size);
    }

    void add_mlp(const std::string& at, int64_t hidden, int64_t intermediate) {
        add(at + "gate_proj.weight", intermediate, hidden);
        add(at + "up_proj.weight", intermediate, hidden);
        add(at + "down_proj.weight", hidden, intermediate);
    }

    std::vector<Tensor> tensors_;
};

inline std::string folder_config(const Shape& shape) {
    const bool experts = shape.experts.count > 0;
    const std::string family = !shape.qk_norm ? "llama" : experts ? "qwen3_moe" : "qwen3";
    const std::string class_name = !shape.qk_norm ? "Llama" : experts ? "Qwen3Moe" : "Qwen3";
    std::string text = "{\"architectures\": [\"" + class_name + "ForCausalLM\"], \"model_type\": \"" + family + "\"";
    const auto number = [&](const char* name, int64_t value) {
        text += ", \"" + std::string(name) + "\": " + std::to_string(value);
    };
    number("hidden_size", shape.hidden);
    number("num_hidden_layers", shape.layers);
    number("num_attention_heads", shape.heads);
    number("num_key_value_heads", shape.kv_heads);
    number("head_dim", shape.head_dim);
    number("intermediate_size", shape.intermediate);
    number("vocab_size", shape.vocab);
    number("max_position_embeddings", 131072);
    number("rope_theta", 1'000'000);
    if (experts) {
        number("num_experts", shape.experts.count);
        number("num_experts_per_tok", shape.experts.top_k);
        number("moe_intermediate_size", shape.experts.intermediate_size);
        text += shape.experts.normalized ? ", \"norm_topk_prob\": true" : ", \"norm_topk_prob\": false";
        text += ", \"decoder_sparse_step\": 1, \"mlp_only_layers\": []";
    }
    text += shape.tied ? ", \"tie_word_embeddings\": true" : ", \"tie_word_embeddings\": false";
    return text + ", \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06, \"torch_dtype\": \"bfloat16\"}\n";
}

// Makes the folder and writes config.json and model.safetensors to it. False where the weights could not be written.
inline bool write_model_folder(const Shape& shape, const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::ofstream(folder / "config.json") << folder_config(shape);
    const FolderTensors tensors(shape);
    const std::string header = tensors.header();
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    for (size_t i = 0; i < 8; ++i) file.put(static_cast<char>((uint64_t{header.size()} >> (8 * i)) & 0xFF));
    file << header;
    tensors.write_data(file);
    return static_cast<bool>(file.flush());
}

}  // namespace nanolith::bench
