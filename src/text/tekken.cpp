#include "text/tekken.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "files/json_fields.h"
#include "files/open_file.h"
#include "text/base64.h"
#include "text/bpe.h"
#include "text/byte_level.h"
#include "text/component.h"
#include "text/json_tokenizer.h"
#include "text/json_writer.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

// Published files take some 20 MB.
constexpr size_t kMaxTekkenBytes = size_t{256} << 20U;
constexpr int64_t kMaxTokens = 1 << 24;
constexpr int64_t kMaxSpecials = 1 << 16;
constexpr int64_t kNumBytes = 256;

// The versions that mistral-common knows. Up to v7 a file may leave its special tokens out.
constexpr std::array<std::string_view, 7> kVersions = {"v1", "v2", "v3", "v7", "v11", "v13", "v15"};
constexpr size_t kNumVersionsWithoutSpecials = 4;
constexpr std::array<std::string_view, 20> kDefaultSpecials = {"<unk>",
                                                               "<s>",
                                                               "</s>",
                                                               "[INST]",
                                                               "[/INST]",
                                                               "[AVAILABLE_TOOLS]",
                                                               "[/AVAILABLE_TOOLS]",
                                                               "[TOOL_RESULTS]",
                                                               "[/TOOL_RESULTS]",
                                                               "[TOOL_CALLS]",
                                                               "[IMG]",
                                                               "<pad>",
                                                               "[IMG_BREAK]",
                                                               "[IMG_END]",
                                                               "[PREFIX]",
                                                               "[MIDDLE]",
                                                               "[SUFFIX]",
                                                               "[SYSTEM_PROMPT]",
                                                               "[/SYSTEM_PROMPT]",
                                                               "[TOOL_CONTENT]"};

// The fields of "config" that are used.
struct Sizes {
    int64_t specials = 0;  // ids of special tokens
    int64_t pieces = 0;    // pieces that count; the file may have more
};

// The added tokens, the decoder and the post-processor as a tokenizer.json would have them.
std::string components_of(const std::vector<std::string>& specials) {
    std::string added;
    for (size_t id = 0; id < specials.size(); ++id) {
        JsonObject token;
        token.add("id", static_cast<int64_t>(id)).add("content", specials[id]).add_json("special", "true");
        added.append(id > 0 ? "," : "").append(token.text());
    }
    JsonObject components;
    components.add_json("added_tokens", "[" + added + "]").add_json("decoder", R"({"type":"ByteLevel"})");
    const auto bos = std::find(specials.begin(), specials.end(), "<s>");
    if (bos == specials.end()) return components.text();
    const std::string id = std::to_string(bos - specials.begin());
    components.add_json(
        "post_processor",
        R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],)"
        R"("special_tokens":{"<s>":{"ids":[)" +
            id + "]}}}");
    return components.text();
}

class Reader {
  public:
    Reader(const Json& json, const std::string& path) : fields_(json, path), path_(path) {}

    Result<std::shared_ptr<const Tokenizer>> read(TokenizerConfig config) {
        NL_ASSIGN(const auto config_fields, fields_.object("config"));
        if (!config_fields.has_value()) return fields_.wrong("config", "an object");
        NL_ASSIGN(const Sizes sizes, read_sizes(*config_fields));
        NL_ASSIGN(const std::string regex, read_string(*config_fields, "pattern"));
        NL_ASSIGN(Pattern pattern, Pattern::regex(regex, path_, PatternSyntax::rust));
        NL_ASSIGN(const std::vector<std::string> specials, read_specials(*config_fields, sizes.specials));
        NL_ASSIGN(auto model, read_model(sizes));
        if (config.bos.empty()) config.bos = "<s>";
        if (config.eos.empty()) config.eos = "</s>";
        if (config.unk.empty()) config.unk = "<unk>";
        if (config.pad.empty()) config.pad = "<pad>";
        NL_ASSIGN(const Json components, parse_json_object(components_of(specials), path_, kMaxTekkenBytes));
        return assemble_tokenizer(std::move(model), PreTokenizer::matches_of(std::move(pattern)), components, path_,
                                  std::move(config));
    }

  private:
    Result<Sizes> read_sizes(const JsonFields& config) {
        NL_ASSIGN(const auto* const vocab, read_list(fields_, "vocab"));
        Sizes sizes;
        NL_ASSIGN(sizes.specials, config.integer("default_num_special_tokens", 0, kMaxSpecials));
        const int64_t most = sizes.specials + std::min<int64_t>(static_cast<int64_t>(vocab->size()), kMaxTokens);
        NL_ASSIGN(const int64_t size, config.integer("default_vocab_size", sizes.specials + kNumBytes, most));
        sizes.pieces = size - sizes.specials;
        return sizes;
    }

    // Their spellings, in the order of their ids; those that the file does not name have names of their own.
    Result<std::vector<std::string>> read_specials(const JsonFields& config, int64_t count) {
        NL_ASSIGN(const std::string version, read_string(config, "version"));
        const auto known = std::find(kVersions.begin(), kVersions.end(), version);
        if (known == kVersions.end())
            return config.wrong("version", "one from v1 to v15 that is known", NL_ERROR_UNSUPPORTED);
        std::vector<std::string> specials;
        if (fields_.find("special_tokens") != nullptr) {
            NL_ASSIGN(const auto* const list, read_list(fields_, "special_tokens"));
            for (const Json& entry : *list) {
                NL_ASSIGN(std::string special, read_special(entry, specials.size()));
                specials.push_back(std::move(special));
            }
        } else if (static_cast<size_t>(known - kVersions.begin()) < kNumVersionsWithoutSpecials) {
            specials.assign(kDefaultSpecials.begin(), kDefaultSpecials.end());
        } else {
            return fields_.wrong("special_tokens", "an array");
        }
        if (specials.size() > static_cast<size_t>(count))
            return fail(NL_ERROR_BAD_MODEL, path_, ": special_tokens has ", specials.size(),
                        " tokens: expected at most ", count, ", config.default_num_special_tokens");
        while (specials.size() < static_cast<size_t>(count))
            specials.push_back("<SPECIAL_" + std::to_string(specials.size()) + ">");
        return specials;
    }

    // {"rank": 1, "token_str": "<s>", ..}
    Result<std::string> read_special(const Json& json, size_t place) {
        const JsonFields fields(json, path_, "special_tokens[" + std::to_string(place) + "].");
        const auto id = static_cast<int64_t>(place);
        NL_TRY(fields.integer("rank", id, id));
        return read_string(fields, "token_str");
    }

    // A vocabulary of which the special tokens' ids are not used.
    Result<std::unique_ptr<const TokenModel>> read_model(const Sizes& sizes) {
        NL_ASSIGN(const auto* const vocab, read_list(fields_, "vocab"));
        std::vector<std::string> pieces(static_cast<size_t>(sizes.specials));
        for (int64_t rank = 0; rank < sizes.pieces; ++rank) {
            NL_ASSIGN(std::string piece, read_piece((*vocab)[static_cast<size_t>(rank)], rank));
            pieces.push_back(std::move(piece));
        }
        Vocabulary vocabulary(std::move(pieces));
        const auto first = static_cast<int32_t>(sizes.specials);
        for (int32_t id = first; id < vocabulary.size(); ++id) {
            if (const int32_t other = vocabulary.find(vocabulary.piece(id)); other != id)
                return fail(NL_ERROR_BAD_MODEL, path_, ": vocab[", other - first, "] has the bytes of vocab[",
                            id - first, "]: expected others");
        }
        NL_ASSIGN(std::unique_ptr<const TokenModel> model, Bpe::of_ranks(std::move(vocabulary), first, path_));
        return model;
    }

    // {"rank": 300, "token_bytes": "IHRoZQ==", ..} as byte_level.h spells it. The first pieces are the single bytes.
    Result<std::string> read_piece(const Json& json, int64_t rank) {
        const JsonFields fields(json, path_, "vocab[" + std::to_string(rank) + "].");
        NL_TRY(fields.integer("rank", rank, rank));
        NL_ASSIGN(const std::string text, read_string(fields, "token_bytes"));
        const std::optional<std::string> bytes = decode_base64(text);
        if (!bytes.has_value() || bytes->empty()) return fields.wrong("token_bytes", "bytes in base64");
        if (rank < kNumBytes && *bytes != std::string(1, static_cast<char>(rank)))
            return fields.wrong("token_bytes", "the byte " + std::to_string(rank) + " in base64");
        std::string spelled;
        append_byte_level(spelled, *bytes);
        return spelled;
    }

    const JsonFields fields_;
    std::string path_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> parse_tekken(std::string_view text, const std::string& path,
                                                      TokenizerConfig config) {
    NL_ASSIGN(const Json json, parse_json_object(text, path, kMaxTekkenBytes));
    return Reader(json, path).read(std::move(config));
}

Result<std::shared_ptr<const Tokenizer>> load_tekken(const std::string& path, TokenizerConfig config) {
    NL_ASSIGN(const std::string text, read_file(path, kMaxTekkenBytes));
    return parse_tekken(text, path, std::move(config));
}

}  // namespace nanolith
