#include "text/post_processor.h"

#include <utility>

#include "text/component.h"

namespace nanolith {
namespace {

constexpr const char* kPostProcessor = "post_processor";
// More than any template puts.
constexpr size_t kMaxTokens = 1024;

class Reader {
  public:
    Reader(int32_t vocab_size, const std::string& where) : vocab_size_(vocab_size), where_(where) {}

    Result<void> read(const Json& json) {
        const JsonFields fields(json, where_, "post_processor.");
        NL_ASSIGN(const std::string type, read_type(fields, kPostProcessor));
        if (type == "ByteLevel") return {};  // it changes offsets only
        if (type == "TemplateProcessing") return read_template(fields);
        if (type == "BertProcessing" || type == "RobertaProcessing") {
            NL_ASSIGN(const int32_t before, read_pair(fields, "cls"));
            NL_ASSIGN(const int32_t after, read_pair(fields, "sep"));
            return put({before}, {after});
        }
        if (type != "Sequence") return unknown_component(where_, kPostProcessor, type);
        NL_ASSIGN(const auto* const list, read_list(fields, "processors"));
        for (const Json& member : *list) NL_TRY(read(member));
        return {};
    }
    [[nodiscard]] PostProcessor& made() { return made_; }

  private:
    Result<int32_t> token_of(const Json& json) {
        const auto* const id = json.as<uint64_t>();
        if (id == nullptr || *id >= static_cast<uint64_t>(vocab_size_))
            return fail(NL_ERROR_BAD_MODEL, where_, ": the post_processor has the token ", show_json(json),
                        ": expected 0 to ", vocab_size_ - 1);
        return static_cast<int32_t>(*id);
    }

    // ["</s>", 2]
    Result<int32_t> read_pair(const JsonFields& fields, const char* name) {
        const Json* const value = fields.find(name);
        const auto* const pair = value != nullptr ? value->as<Json::Array>() : nullptr;
        if (pair == nullptr || pair->size() != 2) return fields.wrong(name, "a token and its id");
        return token_of((*pair)[1]);
    }

    // A processor works on what those before it have made.
    Result<void> put(std::vector<int32_t> before, const std::vector<int32_t>& after) {
        before.insert(before.end(), made_.before.begin(), made_.before.end());
        made_.before = std::move(before);
        made_.after.insert(made_.after.end(), after.begin(), after.end());
        if (made_.before.size() + made_.after.size() > kMaxTokens)
            return fail(NL_ERROR_BAD_MODEL, where_, ": the post_processor puts more than ", kMaxTokens, " tokens");
        return {};
    }

    // {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [1]}}}
    Result<void> read_template(const JsonFields& fields) {
        NL_ASSIGN(const auto* const single, read_list(fields, "single"));
        const Json* const specials = fields.find("special_tokens");
        std::vector<int32_t> before;
        std::vector<int32_t> after;
        bool seen = false;
        for (const Json& part : *single) {
            if (const Json* special = part.find("SpecialToken")) {
                NL_TRY(add_special(*special, specials, seen ? after : before));
                continue;
            }
            const Json* const sequence = part.find("Sequence");
            const Json* const id = sequence != nullptr ? sequence->find("id") : nullptr;
            if (seen || id == nullptr || id->as<std::string>() == nullptr || *id->as<std::string>() != "A")
                return fields.wrong("single", "special tokens around one sequence \"A\"", NL_ERROR_UNSUPPORTED);
            seen = true;
        }
        if (!seen) return fields.wrong("single", "special tokens around one sequence \"A\"", NL_ERROR_UNSUPPORTED);
        return put(std::move(before), after);
    }

    Result<void> add_special(const Json& special, const Json* specials, std::vector<int32_t>& tokens) {
        const Json* const name = special.find("id");
        const auto* const text = name != nullptr ? name->as<std::string>() : nullptr;
        const Json* const entry = text != nullptr && specials != nullptr ? specials->find(*text) : nullptr;
        const Json* const ids = entry != nullptr ? entry->find("ids") : nullptr;
        const auto* const list = ids != nullptr ? ids->as<Json::Array>() : nullptr;
        if (list == nullptr)
            return fail(NL_ERROR_BAD_MODEL, where_, ": the post_processor puts ", show_json(special),
                        ", which its special_tokens don't have");
        for (const Json& id : *list) {
            NL_ASSIGN(const int32_t token, token_of(id));
            tokens.push_back(token);
            if (tokens.size() > kMaxTokens)
                return fail(NL_ERROR_BAD_MODEL, where_, ": the post_processor puts more than ", kMaxTokens, " tokens");
        }
        return {};
    }

    int32_t vocab_size_;
    std::string where_;
    PostProcessor made_;
};

}  // namespace

Result<PostProcessor> PostProcessor::read(const Json* json, int32_t vocab_size, const std::string& where) {
    Reader reader(vocab_size, where);
    if (json != nullptr && !json->is_null()) NL_TRY(reader.read(*json));
    return std::move(reader.made());
}

}  // namespace nanolith
