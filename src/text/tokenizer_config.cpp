#include "text/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "files/json_fields.h"
#include "files/open_file.h"

namespace nanolith {
namespace {

// A special token is its spelling, or an object with it as "content".
Result<void> read_spelling(const JsonFields& fields, const char* name, std::string& spelling) {
    const Json* const value = fields.find(name);
    if (value == nullptr || !spelling.empty()) return {};
    const Json* const content = value->as<Json::Object>() != nullptr ? value->find("content") : value;
    const auto* const text = content != nullptr ? content->as<std::string>() : nullptr;
    if (text == nullptr) return fields.wrong(name, "a string, or an object with a string \"content\"");
    spelling = *text;
    return {};
}

Result<void> read_spellings(const JsonFields& fields, TokenizerConfig& config) {
    NL_TRY(read_spelling(fields, "bos_token", config.bos));
    NL_TRY(read_spelling(fields, "eos_token", config.eos));
    NL_TRY(read_spelling(fields, "unk_token", config.unk));
    NL_TRY(read_spelling(fields, "pad_token", config.pad));
    return {};
}

Result<std::optional<bool>> read_flag(const JsonFields& fields, const char* name) {
    if (fields.find(name) == nullptr) return std::optional<bool>();
    NL_ASSIGN(const bool flag, fields.boolean_or(name, false));
    return std::optional<bool>(flag);
}

using TokensById = std::map<int32_t, AddedToken>;

// "added_tokens_decoder": {"32000": {"content": ..}}
Result<void> read_decoder(const JsonFields& fields, const std::string& path, TokensById& tokens) {
    const Json* const decoder = fields.find("added_tokens_decoder");
    if (decoder == nullptr) return {};
    const auto* const members = decoder->as<Json::Object>();
    if (members == nullptr) return fields.wrong("added_tokens_decoder", "an object");
    for (const JsonMember& member : *members) {
        int32_t id = -1;
        const char* const end = member.name.data() + member.name.size();
        const auto [rest, error] = std::from_chars(member.name.data(), end, id);
        if (error != std::errc() || rest != end || id < 0)
            return fail(NL_ERROR_BAD_MODEL, path, ": added_tokens_decoder has the key ", show_json(member.name),
                        ": expected a token id");
        NL_ASSIGN(AddedToken token,
                  read_added_token(member.value, path + ": added_tokens_decoder." + member.name, &id));
        tokens.insert_or_assign(id, std::move(token));
    }
    return {};
}

// added_tokens.json: {"<|user|>": 32010}. What tokenizer_config.json says of the same token tells more.
Result<void> read_added_tokens_file(const std::string& path, TokensById& tokens) {
    if (!file_exists(path)) return {};
    NL_ASSIGN(const Json json, read_json_object(path));
    for (const JsonMember& member : *json.as<Json::Object>()) {
        const auto* const id = member.value.as<uint64_t>();
        if (id == nullptr || *id > INT32_MAX || member.name.empty())
            return fail(NL_ERROR_BAD_MODEL, path, ": ", show_json(member.name), " is ", show_json(member.value),
                        ": expected a token id");
        AddedToken token;
        token.content = member.name;
        token.id = static_cast<int32_t>(*id);
        tokens.try_emplace(token.id, std::move(token));
    }
    return {};
}

// A string, or a list of {"name", "template"} of which "default" is meant.
std::string read_template(const Json* value) {
    if (value == nullptr) return {};
    if (const auto* text = value->as<std::string>()) return *text;
    const auto* const list = value->as<Json::Array>();
    if (list == nullptr) return {};
    for (const Json& entry : *list) {
        const Json* const name = entry.find("name");
        const Json* const text = entry.find("template");
        if (name == nullptr || text == nullptr || text->as<std::string>() == nullptr) continue;
        if (name->as<std::string>() != nullptr && *name->as<std::string>() == "default")
            return *text->as<std::string>();
    }
    return {};
}

Result<void> read_main_file(const std::string& path, TokenizerConfig& config, TokensById& tokens) {
    if (!file_exists(path)) return {};
    NL_ASSIGN(const Json json, read_json_object(path));
    const JsonFields fields(json, path);
    NL_TRY(read_spellings(fields, config));
    NL_ASSIGN(config.add_bos, read_flag(fields, "add_bos_token"));
    NL_ASSIGN(config.add_eos, read_flag(fields, "add_eos_token"));
    NL_ASSIGN(config.add_prefix_space, read_flag(fields, "add_prefix_space"));
    NL_ASSIGN(config.legacy, read_flag(fields, "legacy"));
    NL_TRY(read_decoder(fields, path, tokens));
    config.chat_template = read_template(fields.find("chat_template"));
    return {};
}

}  // namespace

Result<TokenizerConfig> read_tokenizer_config(const std::string& folder) {
    TokenizerConfig config;
    TokensById tokens;
    NL_TRY(read_main_file(folder + "/tokenizer_config.json", config, tokens));
    if (const std::string path = folder + "/special_tokens_map.json"; file_exists(path)) {
        NL_ASSIGN(const Json json, read_json_object(path));
        NL_TRY(read_spellings(JsonFields(json, path), config));
    }
    NL_TRY(read_added_tokens_file(folder + "/added_tokens.json", tokens));
    for (auto& [id, token] : tokens) config.added_tokens.push_back(std::move(token));
    if (const std::string path = folder + "/chat_template.jinja"; file_exists(path)) {
        NL_ASSIGN(config.chat_template, read_file(path, kMaxJsonBytes));
    }
    return config;
}

}  // namespace nanolith
