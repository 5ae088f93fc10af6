#include "model/gguf/gguf_model.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decoded_weights.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_files.h"
#include "model/gguf/gguf_names.h"
#include "model/weights.h"

namespace nanolith {
namespace {

// The name NAME[3] (see kGgufExpertsEnd) of a tensor that has one expert's matrix alone, as older files have them
// ("blk.0.ffn_up.3.weight"); empty for other names.
std::string expert_name(std::string_view name) {
    constexpr std::string_view kEnd = ".weight";
    for (const std::string_view part : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
        const size_t at = name.find(part);
        if (at == std::string_view::npos || !name.ends_with(kEnd)) continue;
        const size_t first = at + part.size();
        if (first + kEnd.size() >= name.size()) continue;
        const std::string_view number = name.substr(first, name.size() - kEnd.size() - first);
        if (!std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; })) continue;
        return std::string(name.substr(0, first - 1)) + kGgufExpertsEnd + "[" + std::string(number) + "]";
    }
    return {};
}

constexpr size_t kMostExperts = 1U << 16U;  // far above what read_config() accepts

// Makes the map of tensors that assemble_weights looks into.
class TensorMaker {
  public:
    TensorMaker(const GgufFiles& files, bool norms_have_one) : files_(files), norms_have_one_(norms_have_one) {}

    // `decoded` gets the tensors that must be decoded.
    Result<TensorMap> make(DecodedWeights& decoded) {
        std::vector<const StoredTensors::value_type*> in_blocks;
        for (const auto& entry : files_.tensors) {
            const auto& [name, tensor] = entry;
            const bool minus_one = norms_have_one_ && name.ends_with("norm.weight");
            if (!tensor.type->quantised() && !minus_one) {
                add(name, {tensor.type->name, tensor.shape, tensor.bytes, tensor.file, nullptr});
                continue;
            }
            decoded.add(name, *tensor.type, tensor.bytes, *tensor.file, minus_one ? -1.0F : 0.0F);
            in_blocks.push_back(&entry);
        }
        NL_TRY(decoded.map());
        for (size_t i = 0; i < in_blocks.size(); ++i)
            add(in_blocks[i]->first,
                {"F32", in_blocks[i]->second.shape, decoded.bytes(i), &decoded, decoded.compact(i)});
        return std::move(tensors_);
    }

  private:
    void add(const std::string& name, Tensor tensor) {
        if (name.ends_with(kGgufExpertsEnd) && tensor.shape.size() == 3) return add_experts(name, tensor);
        const std::string expert = expert_name(name);
        tensors_.emplace(expert.empty() ? name : expert, std::move(tensor));
    }

    void add_experts(const std::string& name, const Tensor& all) {
        const auto count = static_cast<size_t>(all.shape.front());
        if (count > kMostExperts) return;  // no tensor of a model: a file must not make the map that large
        const size_t each = all.bytes.size() / count;
        for (size_t i = 0; i < count; ++i) {
            tensors_.emplace(name + "[" + std::to_string(i) + "]", Tensor{all.dtype,
                                                                          {all.shape[1], all.shape[2]},
                                                                          all.bytes.subspan(i * each, each),
                                                                          all.source,
                                                                          all.compact});
        }
    }

    const GgufFiles& files_;
    bool norms_have_one_;
    TensorMap tensors_;
};

// The dtype that an engine computes in unless it is told another: bfloat16 where matrices are quantised, else that of
// the matrices. Routers and vectors are float32 in any file.
DType natural_dtype(const StoredTensors& tensors) {
    bool in_blocks = false;
    bool has_float32 = false;
    bool all_half = true;
    for (const auto& [name, tensor] : tensors) {
        if (tensor.shape.size() < 2 || name.find("ffn_gate_inp") != std::string::npos) continue;
        const std::string_view type = tensor.type->name;
        in_blocks = in_blocks || tensor.type->quantised();
        has_float32 = has_float32 || type == "F32";
        all_half = all_half && type == "F16";
    }
    return in_blocks ? DType::bf16 : has_float32 ? DType::f32 : all_half ? DType::f16 : DType::bf16;
}

std::vector<StoredType> count_types(const StoredTensors& tensors) {
    std::map<std::string, StoredType> by_name;
    for (const auto& [name, tensor] : tensors) {
        StoredType& type = by_name[tensor.type->name];
        type.name = tensor.type->name;
        ++type.tensors;
        type.bytes += static_cast<int64_t>(tensor.bytes.size());
    }
    std::vector<StoredType> types;
    types.reserve(by_name.size());
    for (auto& [name, type] : by_name) types.push_back(std::move(type));
    std::ranges::stable_sort(types, std::greater(), &StoredType::bytes);
    return types;
}

}  // namespace

Result<std::unique_ptr<Model>> load_gguf_model(const std::string& path, int64_t max_context, WeightPlace place) {
    NL_ASSIGN(GgufFiles files, open_gguf(path, place));
    NL_ASSIGN(GgufConfig read, read_gguf_config(files, max_context));
    Config& config = read.config;
    auto model = std::make_unique<Model>();
    model->decoded = std::make_unique<DecodedWeights>();
    NL_ASSIGN(const TensorMap tensors, TensorMaker(files, read.norms_have_one).make(*model->decoded));
    NL_ASSIGN(model->weights, assemble_weights(config, tensors, path, model->packed));
    // The weights point to its elements, which a move leaves in place.
    model->head_order = std::move(config.head_order);
    model->end_tokens = std::move(config.end_tokens);
    model->spec = std::move(config.spec);
    model->architecture = config.architecture->name;
    model->file_dtype = natural_dtype(files.tensors);
    model->num_parameters = count_parameters(model->weights);
    model->format = "GGUF " + std::to_string(files.header.version());
    model->stored = count_types(files.tensors);
    model->files = std::move(files.files);
    model->folder = path;
    for (const auto& file : model->files) model->weight_files.push_back(file->facts());
    return model;
}

}  // namespace nanolith
