#include <utility>

#include "files/gguf.h"
#include "files/json.h"
#include "files/open_file.h"
#include "model/config.h"
#include "model/gguf/gguf_model.h"
#include "model/model.h"
#include "model/weight_files.h"
#include "model/weights.h"

namespace nanolith {
namespace {

// generation_config.json has the last word on where an answer ends, if it says anything.
Result<std::vector<int32_t>> load_end_tokens(const std::string& folder, Config& config) {
    const std::string path = folder + "/generation_config.json";
    if (file_exists(path)) {
        NL_ASSIGN(const std::string text, read_file(path, kMaxJsonBytes));
        NL_ASSIGN(std::vector<int32_t> tokens, parse_end_tokens(text, path, config.spec.vocab_size));
        if (!tokens.empty()) return tokens;
    }
    return std::move(config.end_tokens);
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const std::string& path, int64_t max_context, WeightPlace place) {
    if (is_model_file(path)) return load_gguf_model(path, max_context, place);
    const std::string& folder = path;
    const std::string config_path = folder + "/config.json";
    if (!file_exists(config_path)) NL_TRY(check_no_gguf(folder));
    NL_ASSIGN(const std::string config_text, read_file(config_path, kMaxJsonBytes));
    NL_ASSIGN(Config config, parse_config(config_text, config_path, max_context));
    NL_ASSIGN(WeightFiles files, open_weight_files(folder, place));
    auto model = std::make_unique<Model>();
    NL_ASSIGN(model->weights, assemble_weights(config, files.tensors, folder, model->packed));
    model->head_order = std::move(config.head_order);  // its elements, which the weights point to, stay where they are
    NL_ASSIGN(model->end_tokens, load_end_tokens(folder, config));
    model->spec = std::move(config.spec);
    model->architecture = config.architecture->name;
    model->file_dtype = projection_dtype(model->weights);
    model->num_parameters = count_parameters(model->weights);
    model->files = std::move(files.files);
    model->folder = folder;
    for (const auto& file : model->files) model->weight_files.push_back(file->facts());
    return model;
}

Result<std::vector<NotFinite>> finish_loading(Model& model, bool in_place) {
    std::vector<NotFinite> found;
    for (const auto& file : model.files) {
        NL_TRY(file->finish());
        for (NotFinite& tensor : file->not_finite()) found.push_back(std::move(tensor));
    }
    if (model.decoded != nullptr) {
        for (NotFinite& tensor : model.decoded->not_finite()) found.push_back(std::move(tensor));
    }
    if (!in_place) {
        model.weights = {};
        model.packed.clear();
        model.decoded.reset();
        model.files.clear();
    }
    return found;
}

}  // namespace nanolith
