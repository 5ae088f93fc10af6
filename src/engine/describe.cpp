#include "engine/describe.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "model/architecture.h"
#include "model/model.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace nanolith {
namespace {

// A part that can't be used.
void write_error(std::ostream& out, const char* part, const Error& error) {
    const bool missing = error.status == NL_ERROR_NOT_FOUND;
    const bool unknown = error.status == NL_ERROR_UNSUPPORTED;
    out << part << (missing ? ": none: " : unknown ? ": not supported: " : ": not usable: ") << error.message << "\n";
}

void write_windows(std::ostream& out, const ModelSpec& spec) {
    const auto windowed = std::ranges::count_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    if (windowed == 0) return;
    const auto first = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    out << "attention window: " << first->window << " tokens in " << windowed << " of " << spec.num_layers
        << " layers\n";
}

void write_model(std::ostream& out, const Model& model) {
    const ModelSpec& spec = model.spec;
    const Architecture* const architecture = find_architecture(model.architecture);
    out << "model: supported\n"
        << "architecture: " << model.architecture << "\n"
        << "family: " << (architecture != nullptr ? architecture->family : "") << "\n"
        << "parameters: " << model.num_parameters << "\n"
        << "weights: " << dtype_name(model.weights.layers.front().q_proj.dtype) << "\n"
        << "layers: " << spec.num_layers << "\n"
        << "hidden size: " << spec.hidden_size << "\n"
        << "query heads: " << spec.num_heads << "\n"
        << "KV heads: " << spec.num_kv_heads << "\n"
        << "head dim: " << spec.head_dim << "\n";
    if (spec.experts.count > 0)
        out << "experts: " << spec.experts.count << ", " << spec.experts.top_k << " for each token\n";
    write_windows(out, spec);
    out << "context: " << spec.max_context << "\n"
        << "logits: " << spec.vocab_size << "\n";
}

void write_text(std::ostream& out, const std::string& folder) {
    auto tokenizer = Tokenizer::load(folder);
    if (!tokenizer.ok()) return write_error(out, "tokenizer", tokenizer.error());
    out << "tokenizer: supported\n"
        << "tokens: " << (*tokenizer)->vocab_size() << "\n";
    const auto format = ChatFormat::create(*tokenizer, {});
    if (!format.ok()) return write_error(out, "chat format", format.error());
    out << "chat format: " << format->name() << "\n";
}

}  // namespace

Result<std::string> describe_model(const std::string& folder) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
        return fail(NL_ERROR_NOT_FOUND, "path is \"", folder, "\": expected a model folder");
    }
    std::ostringstream out;
    out.exceptions(std::ios::badbit);  // or it would swallow std::bad_alloc
    auto model = load_model(folder);
    if (model.ok()) {
        write_model(out, **model);
    } else {
        write_error(out, "model", model.error());
    }
    write_text(out, folder);
    return std::move(out).str();
}

}  // namespace nanolith
