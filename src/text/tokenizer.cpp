#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/cores.h"
#include "base/hex.h"
#include "files/gguf.h"
#include "files/open_file.h"
#include "text/gguf_tokenizer.h"
#include "text/json_tokenizer.h"
#include "text/part_workers.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tekken.h"
#include "text/text_stream.h"
#include "text/tokenizer_config.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// What a folder without any of the files that are read has instead.
Error no_tokenizer(const std::string& folder) {
    constexpr const char* kOthers[] = {"vocab.json", "qwen.tiktoken", "spiece.model", "vocab.txt"};
    for (const char* const name : kOthers) {
        if (!file_exists(folder + "/" + name)) continue;
        return fail(NL_ERROR_UNSUPPORTED, folder, " has its tokenizer in ", name,
                    ", which is not read here: expected tokenizer.json, tokenizer.model or tekken.json. Transformers "
                    "makes the first: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)");
    }
    return fail(NL_ERROR_NOT_FOUND, "there is neither ", folder, "/tokenizer.json nor ", folder,
                "/tokenizer.model nor ", folder, "/tekken.json: expected one of them");
}

struct Kind {
    const char* name;
    Result<std::shared_ptr<const Tokenizer>> (*load)(const std::string& path, TokenizerConfig config);
};

// The first of these that a folder has counts.
constexpr Kind kKinds[] = {
    {"tokenizer.json", load_json_tokenizer},
    {"tokenizer.model",
     [](const std::string& path, TokenizerConfig config) { return load_sentencepiece(path, std::move(config)); }},
    {"tekken.json", load_tekken}};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& path) {
    if (is_model_file(path)) return load_gguf_tokenizer(path);
    const std::string& folder = path;
    for (const Kind& kind : kKinds) {
        const std::string file = folder + "/" + kind.name;
        if (!file_exists(file)) continue;
        NL_ASSIGN(TokenizerConfig config, read_tokenizer_config(folder));
        return kind.load(file, std::move(config));
    }
    NL_TRY(check_no_gguf(folder));
    return no_tokenizer(folder);
}

Tokenizer::~Tokenizer() = default;

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, uint32_t flags) const {
    constexpr uint32_t kKnownFlags =
        NL_ENCODE_ADD_BOS | NL_ENCODE_ADD_EOS | NL_ENCODE_ADD_SPECIAL | NL_ENCODE_SPECIAL_AS_TEXT | NL_ENCODE_PARALLEL;
    if ((flags & ~kKnownFlags) != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "flags is ", hex(flags),
                    ": expected 0 or a sum of NL_ENCODE_*, bits of ", hex(kKnownFlags));
    if (text.size() > kMaxTextBytes)
        return fail(NL_ERROR_INVALID_ARGUMENT, "text_length is ", text.size(), ": expected at most ", kMaxTextBytes);
    const bool add_bos = (flags & NL_ENCODE_ADD_BOS) != 0;
    const bool add_eos = (flags & NL_ENCODE_ADD_EOS) != 0;
    const bool add_special = (flags & NL_ENCODE_ADD_SPECIAL) != 0;
    if (add_special && (add_bos || add_eos))
        return fail(NL_ERROR_INVALID_ARGUMENT, "flags is ", hex(flags),
                    ": expected NL_ENCODE_ADD_SPECIAL without NL_ENCODE_ADD_BOS and NL_ENCODE_ADD_EOS");
    if (add_bos && bos_ < 0)
        return fail(
            NL_ERROR_INVALID_ARGUMENT,
            "flags has NL_ENCODE_ADD_BOS: expected it only where the tokenizer has a beginning-of-sequence token");
    if (add_eos && eos_ < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "flags has NL_ENCODE_ADD_EOS: expected it only where the tokenizer has an end-of-sequence token");

    std::vector<int32_t> tokens;
    if (add_special) tokens = before_;
    if (add_bos) tokens.push_back(bos_);
    EncodeRules rules;
    rules.filter.special = (flags & NL_ENCODE_SPECIAL_AS_TEXT) == 0;
    if ((flags & NL_ENCODE_PARALLEL) != 0) rules.max_threads = std::min(available_cores(), kMaxEncodingThreads);
    std::string valid;
    if (!is_valid_utf8(text)) {
        valid = replace_invalid_utf8(text);
        text = valid;
    }
    // Room for a token a byte, so that a long list hardly ever grows: one that does is there twice meanwhile. What is
    // not written to takes addresses only.
    tokens.reserve(text.size() + tokens.size() + after_.size() + 2);
    NL_TRY(encode_part(text, rules, true, tokens));
    if (add_special) tokens.insert(tokens.end(), after_.begin(), after_.end());
    if (add_eos) tokens.push_back(eos_);
    return tokens;
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> tokens) const {
    std::string text;
    TextDecoder decoder;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] < 0 || tokens[i] >= vocab_size())
            return fail(NL_ERROR_INVALID_ARGUMENT, "tokens[", i, "] is ", tokens[i], ": expected 0 to ",
                        vocab_size() - 1)
                .with(NL_DETAIL_INDEX, static_cast<int64_t>(i));
        NL_TRY(decoder.push(*this, tokens[i], text));
    }
    decoder.finish(text);
    return text;
}

const AddedToken* Tokenizer::added_token(int32_t token) const {
    const auto found = std::lower_bound(added_tokens_.begin(), added_tokens_.end(), token,
                                        [](const AddedToken& added, int32_t id) { return added.id < id; });
    return found != added_tokens_.end() && found->id == token ? &*found : nullptr;
}

Result<void> Tokenizer::check_token(int32_t token) const {
    if (token >= 0 && token < vocab_size()) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "token is ", token, ": expected 0 to ", vocab_size() - 1);
}

}  // namespace nanolith
