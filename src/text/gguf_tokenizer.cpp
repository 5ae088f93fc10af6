#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "files/json_fields.h"
#include "text/bpe.h"
#include "text/gguf_pre_tokenizer.h"
#include "text/json_tokenizer.h"
#include "text/sentencepiece_file.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/space_symbol.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

constexpr const char* kModel = "tokenizer.ggml.model";
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";

// Kinds of tokens, numbered as by SentencePiece.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr std::array<std::string_view, 10> kEnds = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
};

struct TokenTable {
    std::vector<std::string_view> tokens;
    std::vector<int64_t> types;  // as many
};

Result<TokenTable> read_vocabulary(const GgufHeader& header) {
    TokenTable vocabulary;
    NL_ASSIGN(vocabulary.tokens, header.strings(kTokens));
    NL_ASSIGN(vocabulary.types, header.integers(kTypes, INT32_MIN, INT32_MAX));
    if (vocabulary.types.empty()) vocabulary.types.assign(vocabulary.tokens.size(), kNormal);
    if (vocabulary.types.size() != vocabulary.tokens.size())
        return header.wrong(kTypes, "one for each of " + std::to_string(vocabulary.tokens.size()) + " tokens");
    return vocabulary;
}

class Reader {
  public:
    explicit Reader(const GgufHeader& header) : header_(header) {}

    Result<std::shared_ptr<const Tokenizer>> read() {
        NL_ASSIGN(const auto kind, header_.string(kModel));
        if (!kind || *kind == "none" || *kind == "no_vocab")
            return fail(NL_ERROR_NOT_FOUND, header_.path(), " has no tokenizer: expected ", kModel);
        NL_ASSIGN(vocabulary_, read_vocabulary(header_));
        if (vocabulary_.tokens.empty()) return header_.wrong(kTokens, "an array of tokens");
        NL_TRY(check_texts(kTokens, vocabulary_.tokens));
        NL_TRY(read_config());
        if (*kind == "llama") return sentencepiece();
        if (*kind == "gpt2") return byte_pairs();
        return header_.wrong(kModel, "\"llama\" or \"gpt2\"", NL_ERROR_UNSUPPORTED);
    }

  private:
    // The strings of GGUF files are UTF-8, which all that follows relies on.
    Result<void> check_texts(const char* key, std::span<const std::string_view> texts) const {
        const auto bad = std::ranges::find_if_not(texts, is_valid_utf8);
        if (bad == texts.end()) return {};
        return fail(NL_ERROR_BAD_MODEL, header_.path(), ": ", key, " has text that is not UTF-8 at ",
                    bad - texts.begin(), ": expected UTF-8");
    }

    // The spelling of the token that a key names; empty where it names none.
    Result<std::string> spelling(const char* key, int64_t* id = nullptr) {
        const std::string name = std::string("tokenizer.ggml.") + key;
        // Some files have the largest number for "none".
        NL_ASSIGN(const auto token, header_.integer(name, -1, UINT32_MAX));
        if (!token || *token < 0 || *token == UINT32_MAX) return std::string();
        if (*token >= static_cast<int64_t>(vocabulary_.tokens.size()))
            return header_.wrong(name, "a token from 0 to " + std::to_string(vocabulary_.tokens.size() - 1));
        if (id != nullptr) *id = *token;
        return std::string(vocabulary_.tokens[static_cast<size_t>(*token)]);
    }

    Result<void> read_config() {
        NL_ASSIGN(config_.bos, spelling("bos_token_id"));
        NL_ASSIGN(config_.eos, spelling("eos_token_id"));
        NL_ASSIGN(config_.unk, spelling("unknown_token_id", &unknown_));
        NL_ASSIGN(config_.pad, spelling("padding_token_id"));
        NL_ASSIGN(config_.add_bos, header_.boolean("tokenizer.ggml.add_bos_token"));
        NL_ASSIGN(config_.add_eos, header_.boolean("tokenizer.ggml.add_eos_token"));
        NL_ASSIGN(const auto chat_template, header_.string("tokenizer.chat_template"));
        config_.chat_template = std::string(chat_template.value_or(""));
        return {};
    }

    [[nodiscard]] bool is_control(size_t token) const {
        const int64_t type = vocabulary_.types[token];
        return type == kControl || type == kUnknown;
    }

    Result<std::shared_ptr<const Tokenizer>> sentencepiece() {
        NL_ASSIGN(const auto scores, header_.numbers("tokenizer.ggml.scores"));
        if (scores.size() != vocabulary_.tokens.size())
            return header_.wrong("tokenizer.ggml.scores",
                                 "one for each of " + std::to_string(vocabulary_.tokens.size()) + " tokens");
        NL_ASSIGN(const auto puts_space, header_.boolean("tokenizer.ggml.add_space_prefix"));
        NL_ASSIGN(const auto removes_spaces, header_.boolean("tokenizer.ggml.remove_extra_whitespaces"));
        SentencePieceWriter writer;
        for (size_t i = 0; i < scores.size(); ++i) {
            const bool unknown = static_cast<int64_t>(i) == unknown_;
            const int64_t type = unknown                            ? kUnknown
                                 : vocabulary_.types[i] == kUnknown ? kControl
                                                                    : vocabulary_.types[i];
            if (type < kNormal || type > kByte)
                return header_.wrong(kTypes, "numbers from 1 to 6, not " + std::to_string(type));
            writer.add_piece(
                type == kUserDefined ? with_space_symbols(vocabulary_.tokens[i]) : std::string(vocabulary_.tokens[i]),
                scores[i], static_cast<int32_t>(type));
            if (is_control(i) || type == kUserDefined) add_token(i);
        }
        if (!config_.add_bos) config_.add_bos = true;
        config_.add_prefix_space = puts_space.value_or(true);
        config_.legacy = true;  // the space is put in front of the text after each added token, too
        const bool has_bytes = std::ranges::find(vocabulary_.types, kByte) != vocabulary_.types.end();
        return parse_sentencepiece(std::move(writer).finish(has_bytes, removes_spaces.value_or(false)), header_.path(),
                                   std::move(config_));
    }

    static std::string with_space_symbols(std::string_view token) {
        std::string text;
        for (const char c : token) text += c == ' ' ? std::string(kSpaceSymbol) : std::string(1, c);
        return text;
    }

    void add_token(size_t id) {
        AddedToken token;
        token.content = std::string(vocabulary_.tokens[id]);
        token.id = static_cast<int32_t>(id);
        token.special = is_control(id);
        if (!token.content.empty()) config_.added_tokens.push_back(std::move(token));
    }

    Result<std::shared_ptr<const Tokenizer>> byte_pairs() {
        constexpr const char* kPre = "tokenizer.ggml.pre";
        NL_ASSIGN(const auto name, header_.string(kPre));
        const GgufPreTokenizer* const known = find_gguf_pre_tokenizer(name.value_or(""));
        if (known == nullptr) return header_.wrong(kPre, "one of " + gguf_pre_tokenizer_names(), NL_ERROR_UNSUPPORTED);
        NL_ASSIGN(const Json model, model_json(known->takes_known_words));
        NL_ASSIGN(std::unique_ptr<const TokenModel> bpe, Bpe::read(model, true, header_.path()));
        const Json pre = pre_tokenizer_json(*known);
        NL_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::read(&pre, header_.path()));
        if (!config_.add_bos) config_.add_bos = known->adds_bos;
        if (!config_.add_eos) config_.add_eos = false;
        const Json components = components_json(known->nfc);
        return assemble_tokenizer(std::move(bpe), std::move(pre_tokenizer), components, header_.path(),
                                  std::move(config_));
    }

    // The "model" of a tokenizer.json with the same vocabulary and merges, without control tokens: texts can't spell
    // these.
    Result<Json> model_json(bool takes_known_words) {
        Json::Object pieces;
        for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
            if (is_control(i) || vocabulary_.types[i] == kUnused) continue;
            pieces.push_back({std::string(vocabulary_.tokens[i]), Json(Json::Value(uint64_t{i}))});
        }
        std::ranges::sort(pieces, {}, &JsonMember::name);
        const auto twice = std::ranges::adjacent_find(pieces, {}, &JsonMember::name);
        if (twice != pieces.end())
            return fail(NL_ERROR_BAD_MODEL, header_.path(), ": ", kTokens, " has ", show_json(twice->name),
                        " twice: expected each once");
        NL_ASSIGN(const auto merges, header_.strings("tokenizer.ggml.merges"));
        if (merges.empty()) return header_.wrong("tokenizer.ggml.merges", "an array of merges");
        NL_TRY(check_texts("tokenizer.ggml.merges", merges));
        Json::Array list;
        list.reserve(merges.size());
        for (const std::string_view merge : merges) list.emplace_back(Json::Value(std::string(merge)));
        Json::Object model;  // sorted by name
        model.push_back({"ignore_merges", Json(Json::Value(takes_known_words))});
        model.push_back({"merges", Json(Json::Value(std::move(list)))});
        model.push_back({"vocab", Json(Json::Value(std::move(pieces)))});
        return Json(Json::Value(std::move(model)));
    }

    Json components_json(bool nfc) {
        Json::Array added;
        for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
            const bool special = is_control(i);
            if ((!special && vocabulary_.types[i] != kUserDefined) || vocabulary_.tokens[i].empty()) continue;
            Json::Object token;  // sorted by name
            token.push_back({"content", Json(Json::Value(std::string(vocabulary_.tokens[i])))});
            token.push_back({"id", Json(Json::Value(uint64_t{i}))});
            token.push_back({"special", Json(Json::Value(special))});
            added.emplace_back(Json::Value(std::move(token)));
        }
        Json::Object components;  // sorted by name
        components.push_back({"added_tokens", Json(Json::Value(std::move(added)))});
        components.push_back({"decoder", of_type("ByteLevel")});
        if (nfc) components.push_back({"normalizer", of_type("NFC")});
        return Json(Json::Value(std::move(components)));
    }
    static Json of_type(const char* type) {
        Json::Object object;
        object.push_back({"type", Json(Json::Value(std::string(type)))});
        return Json(Json::Value(std::move(object)));
    }

    const GgufHeader& header_;
    TokenTable vocabulary_;
    TokenizerConfig config_;
    int64_t unknown_ = -1;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_gguf_tokenizer(const GgufHeader& header) {
    return Reader(header).read();
}

Result<std::shared_ptr<const Tokenizer>> load_gguf_tokenizer(const std::string& path) {
    NL_ASSIGN(const OpenFile file, OpenFile::open(path));
    NL_ASSIGN(const GgufHeader header, GgufHeader::read(file));
    return make_gguf_tokenizer(header);
}

Result<std::vector<int64_t>> gguf_end_tokens(const GgufHeader& header) {
    NL_ASSIGN(const TokenTable vocabulary, read_vocabulary(header));
    std::vector<int64_t> ends;
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        const bool is_added = vocabulary.types[i] == kControl || vocabulary.types[i] == kUserDefined;
        if (is_added && std::ranges::find(kEnds, vocabulary.tokens[i]) != kEnds.end())
            ends.push_back(static_cast<int64_t>(i));
    }
    return ends;
}

}  // namespace nanolith
