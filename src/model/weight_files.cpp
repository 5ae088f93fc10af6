#include "model/weight_files.h"

#include <map>
#include <utility>

#include "files/json_fields.h"

namespace nanolith {
namespace {

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

}  // namespace nanolith
