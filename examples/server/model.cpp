#include "model.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api_error.h"
#include "option_values.h"

namespace server {
namespace {

namespace fs = std::filesystem;

std::string folder_name(const std::string& path) {
    const fs::path whole = fs::weakly_canonical(path);
    return whole.filename().string();
}

DrawingDefaults read_drawing(const std::string& folder) {
    DrawingDefaults defaults;
    std::ifstream file(folder + "/generation_config.json");
    const Json json = Json::parse(file, nullptr, false);
    if (!json.is_object()) return defaults;
    const auto number = [&](const char* name, double standard) {
        const auto found = json.find(name);
        return found != json.end() && found->is_number() ? found->get<double>() : standard;
    };
    defaults.temperature = number("temperature", 1);
    defaults.top_p = number("top_p", 1);
    defaults.top_k = static_cast<int64_t>(number("top_k", 0));
    const auto draws = json.find("do_sample");
    if (draws != json.end() && draws->is_boolean() && !draws->get<bool>()) defaults.temperature = 0;
    return defaults;
}

// A folder for as long as this lives with the model's files but the weights, and another chat template.
class TemplateFolder {
  public:
    TemplateFolder(const std::string& model, const std::string& chat_template) {
        std::string pattern = (fs::temp_directory_path() / "nanolith-server-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) throw bad_request("", "No folder can be made for --chat-template.");
        path_ = pattern;
        for (const auto& entry : fs::directory_iterator(model)) {
            const fs::path name = entry.path().filename();
            if (!entry.is_regular_file() || name == "chat_template.jinja" || name.extension() == ".safetensors")
                continue;
            fs::create_symlink(fs::absolute(entry.path()), fs::path(path_) / name);
        }
        fs::create_symlink(fs::absolute(chat_template), fs::path(path_) / "chat_template.jinja");
    }
    TemplateFolder(const TemplateFolder&) = delete;
    TemplateFolder& operator=(const TemplateFolder&) = delete;
    ~TemplateFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

Engine create_engine(const Config& config, Log& log) {
    const Options options = made<Options>([](nl_options** out) { return nl_options_create(NL_OPTIONS_ENGINE, out); });
    must(nl_options_set_text(options.get(), NL_OPTION_DEVICE, config.device.data(), config.device.size()));
    must(nl_options_set_log(options.get(), Log::from_engine, &log));
    set_from_texts(options.get(), config.engine_options);
    return made<Engine>([&](nl_engine** out) {
        return nl_engine_create(config.model.data(), config.model.size(), options.get(), out);
    });
}

}  // namespace

Model::Model(const Config& config, Log& log)
    : name_(config.model_name.empty() ? folder_name(config.model) : config.model_name),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      engine_(create_engine(config, log)),
      drawing_(read_drawing(config.model)) {
    max_context_ = static_cast<size_t>(fact(engine_.get(), NL_ENGINE_MAX_CONTEXT));
    page_size_ = static_cast<size_t>(fact(engine_.get(), NL_ENGINE_PAGE_SIZE));
    open_tokenizer(config, log);
}

void Model::open_tokenizer(const Config& config, Log& log) {
    nl_tokenizer* tokenizer = nullptr;
    nl_status status = NL_OK;
    if (config.chat_template.empty()) {
        status = nl_engine_tokenizer(engine_.get(), &tokenizer);
    } else {
        const TemplateFolder folder(config.model, config.chat_template);
        status = nl_tokenizer_load(folder.path().data(), folder.path().size(), &tokenizer);
    }
    tokenizer_.reset(tokenizer);
    nl_chat_format* format = nullptr;
    if (status == NL_OK) status = nl_chat_format_create(tokenizer, nullptr, 0, &format);
    format_.reset(format);
    if (status == NL_OK) return;
    no_chat_ = nl_last_error();
    if (!config.chat_template.empty()) must(status, "--chat-template");
    log.write(NL_LOG_WARNING, "no chats: " + no_chat_);
}

std::string Model::device() const {
    return text_of([this](char* buffer, size_t capacity, size_t* length) {
        return nl_engine_device(engine_.get(), buffer, capacity, length);
    });
}

std::vector<int32_t> Model::encode(std::string_view text, uint32_t flags, const std::string& param) const {
    if (tokenizer_ == nullptr) throw unsupported(param, "The model has no tokenizer: give token ids. " + no_chat_);
    return tokens_of(
        [&](int32_t* tokens, size_t capacity, size_t* count) {
            return nl_tokenizer_encode(tokenizer_.get(), text.data(), text.size(), flags, tokens, capacity, count);
        },
        text.size() / 2 + 16, param);
}

std::string Model::decode(std::span<const int32_t> tokens) const {
    if (tokenizer_ == nullptr) throw unsupported("tokens", "The model has no tokenizer. " + no_chat_);
    return text_of([&](char* buffer, size_t capacity, size_t* length) {
        return nl_tokenizer_decode(tokenizer_.get(), tokens.data(), tokens.size(), buffer, capacity, length);
    });
}

RenderedChat Model::render(const Json& request, size_t num_messages, bool with_prompt) const {
    if (format_ == nullptr)
        throw unsupported("messages", "The model can't chat; /v1/completions and --chat-template remain. " + no_chat_);
    const std::string text = to_text(request);
    RenderedChat chat;
    chat.ends.resize(num_messages);
    chat.tokens = tokens_of(
        [&](int32_t* tokens, size_t capacity, size_t* count) {
            return nl_chat_format_render_json(format_.get(), text.data(), text.size(),
                                              with_prompt ? NL_CHAT_ADD_GENERATION_PROMPT : 0, chat.ends.data(),
                                              num_messages, tokens, capacity, count);
        },
        text.size() / 2 + 64, "messages");
    return chat;
}

int32_t Model::find(std::string_view piece) const {
    int32_t token = -1;
    if (tokenizer_ == nullptr) return -1;
    return nl_tokenizer_find(tokenizer_.get(), piece.data(), piece.size(), &token) == NL_OK ? token : -1;
}

}  // namespace server
