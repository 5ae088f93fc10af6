#include "model/weights.h"

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "files/json_fields.h"

namespace nanolith {
namespace {

std::optional<DType> weight_dtype(const std::string& name) {
    if (name == "F32") return DType::f32;
    if (name == "F16") return DType::f16;
    if (name == "BF16") return DType::bf16;
    return std::nullopt;
}

// Finds tensors by name and checks what they are.
class Finder {
  public:
    Finder(const TensorMap& tensors, const std::string& where) : tensors_(tensors), where_(where) {}

    // Each stores the view in `weight`.
    [[nodiscard]] Result<void> matrix(const std::string& name, int64_t rows, int64_t cols, WeightView& weight) const {
        return find(name, {rows, cols}, weight);
    }
    [[nodiscard]] Result<void> vector(const std::string& name, int64_t size, WeightView& weight) const {
        return find(name, {size}, weight);
    }
    // A tensor that would change the result and that the forward pass has no use for.
    [[nodiscard]] Result<void> refuse(const std::string& name) const {
        if (tensors_.find(name) == tensors_.end()) return {};
        return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", name, " is not supported, expected a model without it");
    }

  private:
    [[nodiscard]] Result<void> find(const std::string& name, const std::vector<int64_t>& shape,
                                    WeightView& weight) const {
        const auto found = tensors_.find(name);
        if (found == tensors_.end()) {
            return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", name, " is missing, expected one of shape ",
                        show_shape(shape));
        }
        const Tensor& tensor = found->second;
        if (tensor.shape != shape) {
            return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", name, " has the shape ", show_shape(tensor.shape),
                        ", expected ", show_shape(shape), " by config.json");
        }
        const std::optional<DType> dtype = weight_dtype(tensor.dtype);
        if (!dtype) {
            return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", name, " has the dtype ", show_json(tensor.dtype),
                        ", expected F32, F16 or BF16");
        }
        weight = WeightView{*dtype, shape.size() == 2 ? shape[0] : 1, shape.back(), tensor.bytes.data()};
        return {};
    }

    const TensorMap& tensors_;
    const std::string& where_;
};

Result<void> find_biases(const Finder& finder, const TensorNames& names, int32_t layer, LayerWeights& weights) {
    NL_TRY(finder.vector(layer_tensor_name(names.q_bias, layer), weights.q_proj.rows, weights.q_bias));
    NL_TRY(finder.vector(layer_tensor_name(names.k_bias, layer), weights.k_proj.rows, weights.k_bias));
    NL_TRY(finder.vector(layer_tensor_name(names.v_bias, layer), weights.v_proj.rows, weights.v_bias));
    return finder.refuse(layer_tensor_name(names.o_bias, layer));
}

Result<LayerWeights> find_layer(const Finder& finder, const Config& config, int32_t layer) {
    const TensorNames& names = config.architecture->tensors;
    const ModelSpec& spec = config.spec;
    const auto name = [layer](const char* pattern) { return layer_tensor_name(pattern, layer); };
    const int64_t hidden = spec.hidden_size;
    const int64_t q_size = int64_t{spec.num_heads} * spec.head_dim;
    const int64_t kv_size = int64_t{spec.num_kv_heads} * spec.head_dim;
    LayerWeights weights;
    NL_TRY(finder.vector(name(names.attention_norm), hidden, weights.attention_norm));
    NL_TRY(finder.matrix(name(names.q_proj), q_size, hidden, weights.q_proj));
    NL_TRY(finder.matrix(name(names.k_proj), kv_size, hidden, weights.k_proj));
    NL_TRY(finder.matrix(name(names.v_proj), kv_size, hidden, weights.v_proj));
    NL_TRY(finder.matrix(name(names.o_proj), hidden, q_size, weights.o_proj));
    if (config.qkv_bias) NL_TRY(find_biases(finder, names, layer, weights));
    if (config.architecture->qk_norm) {
        NL_TRY(finder.vector(name(names.q_norm), spec.head_dim, weights.q_norm));
        NL_TRY(finder.vector(name(names.k_norm), spec.head_dim, weights.k_norm));
    }
    NL_TRY(finder.vector(name(names.mlp_norm), hidden, weights.mlp_norm));
    NL_TRY(finder.matrix(name(names.gate_proj), spec.intermediate_size, hidden, weights.gate_proj));
    NL_TRY(finder.matrix(name(names.up_proj), spec.intermediate_size, hidden, weights.up_proj));
    NL_TRY(finder.matrix(name(names.down_proj), hidden, spec.intermediate_size, weights.down_proj));
    return weights;
}

Result<WeightFiles> open_single(const std::string& path) {
    WeightFiles weights;
    NL_ASSIGN(MappedFile file, MappedFile::open(path));
    NL_ASSIGN(weights.tensors, parse_safetensors(file.bytes(), path));
    weights.files.push_back(std::move(file));
    return weights;
}

// Maps each shard once, when the index first names it, and takes from it the tensors that the index puts there.
class ShardReader {
  public:
    explicit ShardReader(std::string folder) : folder_(std::move(folder)) {}

    Result<void> take(const std::string& tensor, const std::string& shard) {
        NL_ASSIGN(TensorMap* const tensors, open(shard));
        auto node = tensors->extract(tensor);
        if (node.empty()) {
            return fail(NL_ERROR_BAD_MODEL, folder_, "/", shard, ": tensor ", show_json(tensor),
                        " is missing, expected here by the index");
        }
        weights_.tensors.insert(std::move(node));
        return {};
    }
    WeightFiles finish() { return std::move(weights_); }

  private:
    Result<TensorMap*> open(const std::string& shard) {
        const auto known = shards_.find(shard);
        if (known != shards_.end()) return &known->second;
        const std::string path = folder_ + "/" + shard;
        NL_ASSIGN(MappedFile file, MappedFile::open(path));
        NL_ASSIGN(TensorMap tensors, parse_safetensors(file.bytes(), path));
        weights_.files.push_back(std::move(file));
        return &shards_.emplace(shard, std::move(tensors)).first->second;
    }

    std::string folder_;
    WeightFiles weights_;
    std::map<std::string, TensorMap> shards_;
};

Result<WeightFiles> open_shards(const std::string& folder, const std::string& index_path) {
    NL_ASSIGN(const Json index, read_json_object(index_path));
    const JsonFields fields(index, index_path);
    const Json* value = fields.find("weight_map");
    const auto* map = value != nullptr ? value->as<Json::Object>() : nullptr;
    if (map == nullptr) return fields.wrong("weight_map", "an object of tensors and their files");
    ShardReader reader(folder);
    for (const auto& [tensor, shard] : *map) {
        const auto* name = shard.as<std::string>();
        if (name == nullptr || !is_plain_file_name(*name)) {
            return fail(NL_ERROR_BAD_MODEL, index_path, ": weight_map puts ", show_json(tensor), " in ",
                        show_json(shard), ", expected the name of a file in the same folder");
        }
        NL_TRY(reader.take(tensor, *name));
    }
    return reader.finish();
}

}  // namespace

Result<WeightFiles> open_weight_files(const std::string& folder) {
    const std::string single = folder + "/model.safetensors";
    const std::string index = folder + "/model.safetensors.index.json";
    if (file_exists(single)) return open_single(single);
    if (file_exists(index)) return open_shards(folder, index);
    return fail(NL_ERROR_NOT_FOUND, folder,
                " has no weights, expected model.safetensors or model.safetensors.index.json");
}

Result<ModelWeights> assemble_weights(const Config& config, const TensorMap& tensors, const std::string& where) {
    const Finder finder(tensors, where);
    const TensorNames& names = config.architecture->tensors;
    const ModelSpec& spec = config.spec;
    ModelWeights weights;
    NL_TRY(finder.matrix(names.embedding, spec.vocab_size, spec.hidden_size, weights.embedding));
    NL_TRY(finder.vector(names.final_norm, spec.hidden_size, weights.final_norm));
    if (config.tied_head) {
        weights.head = weights.embedding;
    } else {
        NL_TRY(finder.matrix(names.head, spec.vocab_size, spec.hidden_size, weights.head));
    }
    for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
        NL_ASSIGN(LayerWeights layer_weights, find_layer(finder, config, layer));
        weights.layers.push_back(layer_weights);
    }
    return weights;
}

int64_t count_parameters(const ModelWeights& weights) {
    const auto count = [](const WeightView& weight) { return weight.present() ? weight.rows * weight.cols : 0; };
    int64_t total = count(weights.embedding) + count(weights.final_norm);
    if (weights.head.data != weights.embedding.data) total += count(weights.head);
    for (const LayerWeights& layer : weights.layers) {
        for (const WeightView& weight : {layer.attention_norm, layer.q_proj, layer.k_proj, layer.v_proj, layer.q_bias,
                                         layer.k_bias, layer.v_bias, layer.q_norm, layer.k_norm, layer.o_proj,
                                         layer.mlp_norm, layer.gate_proj, layer.up_proj, layer.down_proj}) {
            total += count(weight);
        }
    }
    return total;
}

DType projection_dtype(const ModelWeights& weights) {
    for (const LayerWeights& layer : weights.layers) {
        for (const WeightView& weight : {layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj, layer.gate_proj,
                                         layer.up_proj, layer.down_proj}) {
            if (weight.dtype == DType::f32) return DType::f32;
        }
    }
    return weights.layers.front().q_proj.dtype;
}

}  // namespace nanolith
