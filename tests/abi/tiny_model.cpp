#include "abi/tiny_model.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nanolith::test {
namespace {

// Collects float32 tensors and writes them in the safetensors layout: the header's length as a little-endian uint64,
// a JSON header, the data.
class SafetensorsWriter {
  public:
    explicit SafetensorsWriter(uint32_t seed) : random_(seed) {}

    void add(const std::string& name, int rows, int cols, float deviation, float mean = 0) {
        std::normal_distribution<float> values(mean, deviation);
        const std::string shape = rows == 1 ? std::to_string(cols) : std::to_string(rows) + "," + std::to_string(cols);
        const size_t begin = data_.size() * sizeof(float);
        for (int i = 0; i < rows * cols; ++i) data_.push_back(values(random_));
        const size_t end = data_.size() * sizeof(float);
        header_ += (header_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":"F32","shape":[)" + shape +
                   R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    }

    void write(const std::string& path) {
        header_ += "}";
        header_.resize((header_.size() + 7) / 8 * 8, ' ');
        const uint64_t length = header_.size();
        std::ofstream file(path, std::ios::binary);
        for (unsigned shift = 0; shift < 64; shift += 8) file.put(static_cast<char>(length >> shift & 0xFFU));
        file << header_;
        file.write(reinterpret_cast<const char*>(data_.data()),
                   static_cast<std::streamsize>(data_.size() * sizeof(float)));
        if (!file.flush()) throw std::runtime_error("cannot write " + path);
    }

  private:
    std::mt19937 random_;
    std::string header_;
    std::vector<float> data_;
};

void write_text(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string config_json(const TinyModelShape& shape) {
    std::string text =
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu",)"
        R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,"torch_dtype":"float32",)"
        R"("attention_bias":false,"mlp_bias":false,"bos_token_id":1,"eos_token_id":2)";
    const std::pair<const char*, int> numbers[] = {{"num_hidden_layers", shape.num_layers},
                                                   {"hidden_size", shape.hidden_size},
                                                   {"intermediate_size", shape.intermediate_size},
                                                   {"num_attention_heads", shape.num_heads},
                                                   {"num_key_value_heads", shape.num_kv_heads},
                                                   {"head_dim", shape.head_dim},
                                                   {"vocab_size", shape.vocab_size},
                                                   {"max_position_embeddings", shape.max_context}};
    for (const auto& [name, value] : numbers) text += ",\"" + std::string(name) + "\":" + std::to_string(value);
    return text + "}";
}

// Deviations that keep activations near 1, so that the drawn tokens depend on the whole context.
void write_weights(const TinyModelShape& shape, const std::string& path) {
    SafetensorsWriter writer(shape.seed);
    const auto deviation = [](int inputs) { return 1.5F / std::sqrt(static_cast<float>(inputs)); };
    const int hidden = shape.hidden_size;
    const int queries = shape.num_heads * shape.head_dim;
    const int keys = shape.num_kv_heads * shape.head_dim;
    writer.add("model.embed_tokens.weight", shape.vocab_size, hidden, 1);
    for (int i = 0; i < shape.num_layers; ++i) {
        const std::string layer = "model.layers." + std::to_string(i) + ".";
        writer.add(layer + "input_layernorm.weight", 1, hidden, 0.1F, 1);
        writer.add(layer + "self_attn.q_proj.weight", queries, hidden, deviation(hidden));
        writer.add(layer + "self_attn.k_proj.weight", keys, hidden, deviation(hidden));
        writer.add(layer + "self_attn.v_proj.weight", keys, hidden, deviation(hidden));
        writer.add(layer + "self_attn.o_proj.weight", hidden, queries, deviation(queries));
        writer.add(layer + "post_attention_layernorm.weight", 1, hidden, 0.1F, 1);
        writer.add(layer + "mlp.gate_proj.weight", shape.intermediate_size, hidden, deviation(hidden));
        writer.add(layer + "mlp.up_proj.weight", shape.intermediate_size, hidden, deviation(hidden));
        writer.add(layer + "mlp.down_proj.weight", hidden, shape.intermediate_size, deviation(shape.intermediate_size));
    }
    writer.add("model.norm.weight", 1, hidden, 0.1F, 1);
    writer.add("lm_head.weight", shape.vocab_size, hidden, deviation(hidden));
    writer.write(path);
}

}  // namespace

TinyModel::TinyModel(const TinyModelShape& shape) : shape_(shape) {
    write_text(path() + "/config.json", config_json(shape));
    write_text(path() + "/generation_config.json", R"({"bos_token_id":1,"eos_token_id":[2,7]})");
    write_weights(shape, path() + "/model.safetensors");
    std::filesystem::copy_file(std::string(NL_UNIT_DATA) + "/bpe_bytes/tokenizer.model", path() + "/tokenizer.model");
}

}  // namespace nanolith::test
