#include "model/describe.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <system_error>

#include "backend/weight_form.h"
#include "files/gguf.h"
#include "model/architecture.h"
#include "model/model.h"
#include "text/chat_format.h"
#include "text/json_writer.h"
#include "text/tokenizer.h"

namespace nanolith {
namespace {

using Facts = std::vector<ModelFact>;

// The fact of a part that can't be used: whether it is missing, not supported or damaged.
ModelFact refused(const char* part, const Error& error) {
    const bool missing = error.status == NL_ERROR_NOT_FOUND;
    const bool unknown = error.status == NL_ERROR_UNSUPPORTED;
    return {part, (missing ? "none: " : unknown ? "not supported: " : "not usable: ") + error.message};
}

void add_windows(Facts& facts, const ModelSpec& spec) {
    const auto windowed = std::ranges::count_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    if (windowed == 0) return;
    const auto first = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    facts.push_back({"attention window", int64_t{first->window}});
    facts.push_back({"layers with a window", int64_t{windowed}});
}

// "bfloat16", or "4 bits with a scale for 32" of compact weights: a group of 32 shares a scale.
std::string weights_text(const WeightView& weight) {
    if (weight.compact == nullptr) return dtype_name(weight.dtype);
    const CompactForm form = weight.compact->form();
    const std::string codes = form.codes == CodeKind::bits4 ? "4 bits" : form.codes == CodeKind::int8 ? "int8" : "e4m3";
    if (form.scales == ScaleKind::none) return codes + " with a scale for each row";
    const char* const scales = form.scales == ScaleKind::zeros ? " with a scale and a zero point for "
                               : form.mins                     ? " with a scale and a minimum for "
                                                               : " with a scale for ";
    return codes + scales + std::to_string(form.group);
}

// The format of a folder's projections; of a GGUF file each type with its bytes: "Q4_K 120 MB, F32 0.3 MB".
std::string weights_of(const Model& model) {
    if (model.stored.empty()) return weights_text(model.weights.layers.front().q_proj);
    std::ostringstream text;
    text << std::fixed << std::setprecision(1);
    for (const StoredType& type : model.stored)
        text << (type.name == model.stored.front().name ? "" : ", ") << type.name << ' '
             << static_cast<double>(type.bytes) / 1e6 << " MB";
    return std::move(text).str();
}

void add_model(Facts& facts, const Model& model) {
    const ModelSpec& spec = model.spec;
    const Architecture* const architecture = find_architecture(model.architecture);
    facts.push_back({"model", "supported"});
    facts.push_back({"architecture", model.architecture});
    facts.push_back({"family", architecture != nullptr ? std::string(architecture->family) : ""});
    facts.push_back({"parameters", model.num_parameters});
    facts.push_back({"format", model.format});
    facts.push_back({"weights", weights_of(model)});
    // About what they take in memory by default. On a GPU compact weights become 16 bits where its backend does not
    // keep them (Backend::keeps_compact).
    facts.push_back(
        {"weight bytes", static_cast<int64_t>(stored_bytes(model.weights, WeightForm::source, model.file_dtype))});
    if (!model.stored.empty()) facts.push_back({"computed with", dtype_name(model.file_dtype)});
    facts.push_back({"layers", int64_t{spec.num_layers}});
    facts.push_back({"hidden size", int64_t{spec.hidden_size}});
    facts.push_back({"query heads", int64_t{spec.num_heads}});
    facts.push_back({"KV heads", int64_t{spec.num_kv_heads}});
    facts.push_back({"head dim", int64_t{spec.head_dim}});
    if (spec.experts.count > 0) {
        facts.push_back({"experts", int64_t{spec.experts.count}});
        facts.push_back({"experts for each token", int64_t{spec.experts.top_k}});
    }
    add_windows(facts, spec);
    facts.push_back({"context", int64_t{spec.max_context}});
    facts.push_back({"logits", int64_t{spec.vocab_size}});
}

void add_text(Facts& facts, const std::string& folder) {
    auto tokenizer = Tokenizer::load(folder);
    if (!tokenizer.ok()) {
        facts.push_back(refused("tokenizer", tokenizer.error()));
        return;
    }
    facts.push_back({"tokenizer", "supported"});
    facts.push_back({"tokens", int64_t{(*tokenizer)->vocab_size()}});
    const auto format = ChatFormat::create(*tokenizer, {});
    facts.push_back(format.ok() ? ModelFact{"chat format", std::string(format->name())}
                                : refused("chat format", format.error()));
}

}  // namespace

Result<std::vector<ModelFact>> describe_model(const std::string& folder) {
    std::error_code error;
    if (!is_model_file(folder) && !std::filesystem::is_directory(folder, error)) {
        return fail(NL_ERROR_NOT_FOUND, "path is \"", folder, "\": expected a model folder or a GGUF file");
    }
    Facts facts;
    auto model = load_model(folder);
    if (model.ok()) {
        add_model(facts, **model);
    } else {
        facts.push_back(refused("model", model.error()));
    }
    add_text(facts, folder);
    return facts;
}

std::string as_text(const std::vector<ModelFact>& facts) {
    std::string text;
    for (const auto& [name, value] : facts) {
        const auto* const number = std::get_if<int64_t>(&value);
        text += name + ": " + (number != nullptr ? std::to_string(*number) : std::get<std::string>(value)) + "\n";
    }
    return text;
}

std::string as_json(const std::vector<ModelFact>& facts) {
    JsonObject object;
    for (const auto& fact : facts) std::visit([&](const auto& value) { object.add(fact.name, value); }, fact.value);
    return object.text();
}

}  // namespace nanolith
