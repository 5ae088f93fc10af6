#include "model/weight_files.h"

#include <map>
#include <utility>

#include "files/json_fields.h"

namespace nanolith {
namespace {

Result<WeightFiles> open_single(const std::string& path, WeightPlace place) {
    WeightFiles weights;
    NL_ASSIGN(auto file, WeightFile::open(path, place));
    weights.tensors = file->take_tensors();
    weights.files.push_back(std::move(file));
    return weights;
}

// Opens each shard once, when the index first names it, and takes from it the tensors that the index puts there.
class ShardReader {
  public:
    ShardReader(std::string folder, WeightPlace place) : folder_(std::move(folder)), place_(place) {}

    Result<void> take(const std::string& tensor, const std::string& shard) {
        NL_ASSIGN(TensorMap* const tensors, open(shard));
        auto node = tensors->extract(tensor);
        if (node.empty()) {
            return fail(NL_ERROR_BAD_MODEL, folder_, "/", shard, ": tensor ", show_json(tensor),
                        " is missing: expected here by the index");
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
        NL_ASSIGN(auto file, WeightFile::open(path, place_));
        TensorMap tensors = file->take_tensors();
        weights_.files.push_back(std::move(file));
        return &shards_.emplace(shard, std::move(tensors)).first->second;
    }

    std::string folder_;
    WeightPlace place_;
    WeightFiles weights_;
    std::map<std::string, TensorMap> shards_;
};

Result<WeightFiles> open_shards(const std::string& folder, const std::string& index_path, WeightPlace place) {
    NL_ASSIGN(const Json index, read_json_object(index_path));
    const JsonFields fields(index, index_path);
    const Json* value = fields.find("weight_map");
    const auto* map = value != nullptr ? value->as<Json::Object>() : nullptr;
    if (map == nullptr) return fields.wrong("weight_map", "an object of tensors and their files");
    ShardReader reader(folder, place);
    for (const auto& [tensor, shard] : *map) {
        const auto* name = shard.as<std::string>();
        if (name == nullptr || !is_plain_file_name(*name)) {
            return fail(NL_ERROR_BAD_MODEL, index_path, ": weight_map puts ", show_json(tensor), " in ",
                        show_json(shard), ": expected the name of a file in the same folder");
        }
        NL_TRY(reader.take(tensor, *name));
    }
    return reader.finish();
}

// What a folder without safetensors has instead.
Error no_weights(const std::string& folder) {
    struct Other {
        const char* name;
        const char* what;
        const char* cure;
    };
    constexpr const char* kSave = "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder)";
    constexpr Other kOthers[] = {
        {"pytorch_model.bin", "Python's pickle, which may run any code when it is read", kSave},
        {"pytorch_model.bin.index.json", "Python's pickle, which may run any code when it is read", kSave},
        {"consolidated.safetensors", "the layout of the model's makers",
         "the folder of the same model for Transformers"},
        {"consolidated.00.pth", "the layout of the model's makers", "the folder of the same model for Transformers"},
        {"adapter_model.safetensors", "an adapter without its model",
         "PeftModel.merge_and_unload() and save_pretrained"},
        {"tf_model.h5", "TensorFlow's layout", "from_pretrained(folder, from_tf=True).save_pretrained(folder)"},
        {"flax_model.msgpack", "Flax's layout", "from_pretrained(folder, from_flax=True).save_pretrained(folder)"},
    };
    for (const Other& other : kOthers) {
        if (!file_exists(folder + "/" + other.name)) continue;
        return fail(NL_ERROR_UNSUPPORTED, folder, " has its weights in ", other.name, ", ", other.what,
                    ": expected model.safetensors or model.safetensors.index.json. What gives it: ", other.cure);
    }
    return fail(NL_ERROR_NOT_FOUND, folder,
                " has no weights: expected model.safetensors or model.safetensors.index.json");
}

}  // namespace

Result<WeightFiles> open_weight_files(const std::string& folder, WeightPlace place) {
    const std::string single = folder + "/model.safetensors";
    const std::string index = folder + "/model.safetensors.index.json";
    if (file_exists(single)) return open_single(single, place);
    if (file_exists(index)) return open_shards(folder, index, place);
    return no_weights(folder);
}

}  // namespace nanolith
