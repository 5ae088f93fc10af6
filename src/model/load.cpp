#include <utility>

#include "model/config.h"
#include "model/model.h"
#include "model/weight_files.h"
#include "model/weights.h"

namespace nanolith {
namespace {

// generation_config.json has the last word on where an answer ends, if it says anything.
Result<std::vector<int32_t>> load_end_tokens(const std::string& folder, Config& config) {
    const std::string path = folder + "/generation_config.json";
    if (file_exists(path)) {
        NL_ASSIGN(const MappedFile file, MappedFile::open(path));
        NL_ASSIGN(std::vector<int32_t> tokens, parse_end_tokens(file.text(), path, config.spec.vocab_size));
        if (!tokens.empty()) return tokens;
    }
    return std::move(config.end_tokens);
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const std::string& folder, int64_t max_context) {
    const std::string config_path = folder + "/config.json";
    NL_ASSIGN(const MappedFile config_file, MappedFile::open(config_path));
    NL_ASSIGN(Config config, parse_config(config_file.text(), config_path, max_context));
    NL_ASSIGN(WeightFiles files, open_weight_files(folder));
    auto model = std::make_unique<Model>();
    NL_ASSIGN(model->weights, assemble_weights(config, files.tensors, folder));
    model->head_order = std::move(config.head_order);  // its elements, which the weights point to, stay where they are
    NL_ASSIGN(model->end_tokens, load_end_tokens(folder, config));
    model->spec = std::move(config.spec);
    model->architecture = config.architecture->name;
    model->file_dtype = projection_dtype(model->weights);
    model->num_parameters = count_parameters(model->weights);
    model->files = std::move(files.files);
    return model;
}

}  // namespace nanolith
