#include "bench/whole_model/model_folder.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

namespace nanolith::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Tensor {
    std::string name;
    int64_t rows = 0;  // 0: a vector, of a norm
    int64_t cols = 0;
    bool large = false;
    [[nodiscard]] int64_t bytes() const { return 2 * std::max<int64_t>(rows, 1) * cols; }
};
using Tensors = std::vector<Tensor>;

void add_mlp(Tensors& tensors, const std::string& at, int64_t hidden, int64_t intermediate) {
    tensors.push_back({at + "gate_proj.weight", intermediate, hidden});
    tensors.push_back({at + "up_proj.weight", intermediate, hidden});
    tensors.push_back({at + "down_proj.weight", hidden, intermediate});
}

void add_layer(Tensors& tensors, const std::string& at, const Shape& shape) {
    const int64_t hidden = shape.hidden;
    const int64_t queries = int64_t{shape.heads} * shape.head_dim;
    const int64_t keys = int64_t{shape.kv_heads} * shape.head_dim;
    tensors.push_back({at + "input_layernorm.weight", 0, hidden});
    tensors.push_back({at + "self_attn.q_proj.weight", queries, hidden});
    tensors.push_back({at + "self_attn.k_proj.weight", keys, hidden});
    tensors.push_back({at + "self_attn.v_proj.weight", keys, hidden});
    tensors.push_back({at + "self_attn.o_proj.weight", hidden, queries});
    if (shape.qk_norm) {
        tensors.push_back({at + "self_attn.q_norm.weight", 0, shape.head_dim});
        tensors.push_back({at + "self_attn.k_norm.weight", 0, shape.head_dim});
    }
    tensors.push_back({at + "post_attention_layernorm.weight", 0, hidden});
    if (shape.experts.count == 0) return add_mlp(tensors, at + "mlp.", hidden, shape.intermediate);
    tensors.push_back({at + "mlp.gate.weight", shape.experts.count, hidden});
    for (int32_t i = 0; i < shape.experts.count; ++i)
        add_mlp(tensors, at + "mlp.experts." + std::to_string(i) + ".", hidden, shape.experts.intermediate_size);
}

// All tensors, in files of about a gigabyte.
std::vector<Tensors> files_of(const Shape& shape) {
    constexpr int64_t kFileBytes = int64_t{1} << 30;
    // Rows that are alike choose the same experts. With a large embedding they differ as their tokens do.
    Tensors all = {{"model.embed_tokens.weight", shape.vocab, shape.hidden, shape.experts.count > 0}};
    if (!shape.tied) all.push_back({"lm_head.weight", shape.vocab, shape.hidden});
    for (int32_t layer = 0; layer < shape.layers; ++layer)
        add_layer(all, "model.layers." + std::to_string(layer) + ".", shape);
    all.push_back({"model.norm.weight", 0, shape.hidden});
    std::vector<Tensors> files(1);
    int64_t bytes = 0;
    for (const Tensor& tensor : all) {
        if (bytes > 0 && bytes + tensor.bytes() > kFileBytes) {
            files.emplace_back();
            bytes = 0;
        }
        files.back().push_back(tensor);
        bytes += tensor.bytes();
    }
    return files;
}

std::string file_name(size_t index, size_t count) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
    return name;
}

// The file's length and header; data begin at a multiple of 64 bytes.
std::string header_of(const Tensors& tensors) {
    constexpr size_t kLengthBytes = 8;
    constexpr size_t kAlignment = 64;
    Json header;
    header["__metadata__"] = {{"format", "pt"}};
    int64_t at = 0;
    for (const Tensor& tensor : tensors) {
        Json sizes = Json::array();
        if (tensor.rows > 0) sizes.push_back(tensor.rows);
        sizes.push_back(tensor.cols);
        header[tensor.name] = {{"dtype", "BF16"}, {"shape", sizes}, {"data_offsets", {at, at + tensor.bytes()}}};
        at += tensor.bytes();
    }
    std::string text = header.dump();
    while ((kLengthBytes + text.size()) % kAlignment != 0) text += ' ';
    std::string length;
    for (size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>((uint64_t{text.size()} >> (8 * i)) & 0xFF);
    return length + text;
}

int64_t data_bytes(const Tensors& tensors) {
    int64_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.bytes();
    return bytes;
}

// Values of either sign from 2^-6 to 2^-5, alike in size so that activations stay in range, of large tensors from 2^4
// to 2^5; those of norms are 1.
bool write_file(const fs::path& path, const Tensors& tensors, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint16_t> values((size_t{1} << 22) - 3);  // a prime, so that no two rows of a matrix are alike
    for (uint16_t& value : values) value = static_cast<uint16_t>((random() & 0x807fU) | 0x3c80U);
    std::vector<uint16_t> large = values;
    for (uint16_t& value : large) value = static_cast<uint16_t>((value & 0x807fU) | 0x4180U);
    std::ofstream file(path, std::ios::binary);
    file << header_of(tensors);
    for (const Tensor& tensor : tensors) {
        const std::vector<uint16_t> ones(tensor.rows == 0 ? static_cast<size_t>(tensor.cols) : 0, 0x3f80);
        const std::vector<uint16_t>& from = tensor.rows == 0 ? ones : tensor.large ? large : values;
        for (int64_t left = tensor.bytes(); left > 0;) {
            const int64_t now = std::min<int64_t>(left, static_cast<int64_t>(2 * from.size()));
            file.write(reinterpret_cast<const char*>(from.data()), now);
            left -= now;
        }
    }
    return static_cast<bool>(file.flush());
}

Json config_of(const Shape& shape) {
    const bool experts = shape.experts.count > 0;
    const std::string type = !shape.qk_norm ? "llama" : experts ? "qwen3_moe" : "qwen3";
    const std::string name = !shape.qk_norm ? "Llama" : experts ? "Qwen3Moe" : "Qwen3";
    Json config = {{"architectures", {name + "ForCausalLM"}},
                   {"model_type", type},
                   {"hidden_size", shape.hidden},
                   {"num_hidden_layers", shape.layers},
                   {"num_attention_heads", shape.heads},
                   {"num_key_value_heads", shape.kv_heads},
                   {"head_dim", shape.head_dim},
                   {"intermediate_size", shape.intermediate},
                   {"vocab_size", shape.vocab},
                   {"max_position_embeddings", 131072},
                   {"rope_theta", 1e6},
                   {"rms_norm_eps", 1e-6},
                   {"hidden_act", "silu"},
                   {"attention_bias", false},
                   {"bos_token_id", 1},
                   {"eos_token_id", 2},
                   {"tie_word_embeddings", shape.tied},
                   {"torch_dtype", "bfloat16"}};
    if (experts) {
        config["num_experts"] = shape.experts.count;
        config["num_experts_per_tok"] = shape.experts.top_k;
        config["moe_intermediate_size"] = shape.experts.intermediate_size;
        config["norm_topk_prob"] = shape.experts.normalized;
        config["decoder_sparse_step"] = 1;
        config["mlp_only_layers"] = Json::array();
    }
    return config;
}

bool has_files(const fs::path& folder, const std::string& config, const std::vector<Tensors>& files) {
    std::ifstream there(folder / "config.json");
    const std::string text{std::istreambuf_iterator<char>(there), std::istreambuf_iterator<char>()};
    for (size_t i = 0; i < files.size(); ++i) {
        std::error_code error;
        const auto bytes = static_cast<int64_t>(fs::file_size(folder / file_name(i, files.size()), error));
        if (error || bytes != static_cast<int64_t>(header_of(files[i]).size()) + data_bytes(files[i])) return false;
    }
    return text == config;
}

// Writes every file with as many threads as the machine has cores; false where one could not be written.
bool write_files(const fs::path& folder, const std::vector<Tensors>& files) {
    std::atomic<size_t> next = 0;
    std::atomic<bool> written = true;
    std::vector<std::thread> threads;
    const size_t count = std::min<size_t>(files.size(), std::max(1U, std::thread::hardware_concurrency()));
    for (size_t i = 0; i < count; ++i) {
        threads.emplace_back([&] {
            for (size_t file = next++; file < files.size(); file = next++) {
                if (!write_file(folder / file_name(file, files.size()), files[file], static_cast<uint32_t>(file + 1)))
                    written = false;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return written;
}

}  // namespace

std::string write_model_folder(const Shape& shape, const fs::path& folder) {
    const std::vector<Tensors> files = files_of(shape);
    const std::string config = config_of(shape).dump(2);
    if (has_files(folder, config, files)) return "";
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return "cannot make the folder " + folder.string() + ": " + error.message();
    if (!write_files(folder, files)) return "cannot write the weights to " + folder.string();
    Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
    int64_t total = 0;
    for (size_t i = 0; i < files.size(); ++i) {
        for (const Tensor& tensor : files[i]) index["weight_map"][tensor.name] = file_name(i, files.size());
        total += data_bytes(files[i]);
    }
    index["metadata"]["total_size"] = total;
    std::ofstream(folder / "model.safetensors.index.json") << index.dump(2);
    std::ofstream config_file(folder / "config.json");  // last: a folder with it is complete
    config_file << config;
    return config_file.flush() ? "" : "cannot write " + (folder / "config.json").string();
}

}  // namespace nanolith::bench
