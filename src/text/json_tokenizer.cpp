#include "text/json_tokenizer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "files/open_file.h"
#include "files/serde_number.h"
#include "text/bpe.h"
#include "text/component.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/token_list.h"
#include "text/unigram.h"
#include "text/word_level.h"
#include "text/word_piece.h"

namespace nanolith {
namespace {

// A vocabulary of 256,000 pieces takes some 35 MB.
constexpr size_t kMaxTokenizerJsonBytes = size_t{256} << 20U;
// Most ids that added tokens may leave unused after the vocabulary.
constexpr int32_t kMaxUnusedTokens = 1 << 16;
// Longest added token after its normalisation.
constexpr size_t kMaxPatternBytes = 4096;

// The end of the way: words become tokens.
class WordEncoder final : public WordTaker {
  public:
    WordEncoder(const TokenModel& model, size_t text_bytes, std::vector<int32_t>& tokens)
        : encoder_(model.make_encoder(text_bytes)), tokens_(&tokens) {}

    Result<void> take(std::string_view word, bool /*at_start*/) override {
        if (word.size() <= kMaxWordBytes) return encoder_->encode(word, *tokens_);
        return fail(NL_ERROR_INVALID_ARGUMENT, "the text has a word of ", word.size(),
                    " bytes when it is normalised: expected at most ", kMaxWordBytes);
    }

  private:
    static constexpr size_t kMaxWordBytes = INT32_MAX;

    std::unique_ptr<TokenModel::Encoder> encoder_;
    std::vector<int32_t>* tokens_;
};

class JsonTokenizer final : public Tokenizer {
  public:
    JsonTokenizer(std::unique_ptr<const TokenModel> model, PreTokenizer pre_tokenizer, bool tokens_hide_pieces)
        : model_(std::move(model)), pre_tokenizer_(std::move(pre_tokenizer)), tokens_hide_pieces_(tokens_hide_pieces) {}

    Result<void> configure(const Json& json, const std::string& path, TokenizerConfig config);

    [[nodiscard]] Result<void> encode_part(std::string_view text, const EncodeRules& rules, bool at_start,
                                           std::vector<int32_t>& tokens) const override;
    [[nodiscard]] int32_t vocab_size() const override { return vocab_size_; }
    [[nodiscard]] Result<int32_t> find(std::string_view piece) const override;
    [[nodiscard]] Result<std::string> piece(int32_t token) const override;
    [[nodiscard]] Result<Surface> surface(int32_t token, bool is_first) const override;

  private:
    Result<void> read_added_tokens(const Json* json, const std::string& path);
    Result<void> fill_matchers(const std::string& path);
    Result<void> choose_specials(const Json& json, const std::string& path, const TokenizerConfig& config);
    [[nodiscard]] Result<void> encode_normalized(std::string_view text, const TokenFilter& filter, bool at_start,
                                                 PreTokenizer::Cutter& cutter, std::vector<int32_t>& tokens) const;
    [[nodiscard]] const Vocabulary& vocabulary() const { return model_->vocabulary(); }

    std::unique_ptr<const TokenModel> model_;
    PreTokenizer pre_tokenizer_;
    bool tokens_hide_pieces_;                       // an added token may be spelled as a piece that has another id
    std::unique_ptr<const Normalizer> normalizer_;  // null where there is none
    std::optional<TokenDecoder> decoder_;
    TokenMatcher raw_matcher_;         // of added tokens that are looked for before the text is normalised
    TokenMatcher normalized_matcher_;  // and of those that are after
    std::unordered_map<std::string_view, int32_t> added_ids_;       // of added_tokens_
    std::unordered_map<int32_t, std::string> normalized_contents_;  // of those that their normalisation changes
    int32_t vocab_size_ = 0;
};

Result<void> JsonTokenizer::configure(const Json& json, const std::string& path, TokenizerConfig config) {
    NL_ASSIGN(normalizer_, Normalizer::read(json.find("normalizer"), path));
    NL_ASSIGN(decoder_, TokenDecoder::read(json.find("decoder"), path));
    rules_ = decoder_->rules();
    NL_TRY(read_added_tokens(json.find("added_tokens"), path));
    NL_TRY(fill_matchers(path));
    chat_template_ = std::move(config.chat_template);
    return choose_specials(json, path, config);
}

Result<void> JsonTokenizer::read_added_tokens(const Json* json, const std::string& path) {
    vocab_size_ = vocabulary().size();
    if (json == nullptr || json->is_null()) return {};
    const auto* const list = json->as<Json::Array>();
    if (list == nullptr)
        return fail(NL_ERROR_BAD_MODEL, path, ": added_tokens is ", show_json(*json), ": expected an array");
    const auto limit = static_cast<int64_t>(vocab_size_) + static_cast<int64_t>(list->size()) + kMaxUnusedTokens;
    for (const Json& entry : *list) {
        NL_ASSIGN(AddedToken token, read_added_token(entry, path + ": added_tokens", nullptr));
        const int32_t known = vocabulary().find(token.content);
        if (token.id >= limit || (known >= 0 && known != token.id && !tokens_hide_pieces_))
            return fail(NL_ERROR_BAD_MODEL, path, ": the added token ", show_json(token.content), " has the id ",
                        token.id, ": expected ", known >= 0 ? known : limit - 1, known >= 0 ? "" : " at most");
        vocab_size_ = std::max(vocab_size_, token.id + 1);
        added_tokens_.push_back(std::move(token));
    }
    std::sort(added_tokens_.begin(), added_tokens_.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    for (size_t i = 0; i < added_tokens_.size(); ++i) {
        const AddedToken& token = added_tokens_[i];
        if ((i > 0 && added_tokens_[i - 1].id == token.id) || !added_ids_.emplace(token.content, token.id).second)
            return fail(NL_ERROR_BAD_MODEL, path, ": added_tokens has ", show_json(token.content), " or its id ",
                        token.id, " twice");
    }
    return {};
}

Result<void> JsonTokenizer::fill_matchers(const std::string& path) {
    for (const AddedToken& token : added_tokens_) {
        if (!token.normalized) {
            raw_matcher_.add(token.content, &token);
            continue;
        }
        NormalText pattern{token.content};
        if (normalizer_ != nullptr) NL_TRY(normalizer_->apply(pattern));
        if (pattern.text.size() > kMaxPatternBytes)
            return fail(NL_ERROR_BAD_MODEL, path, ": the added token ", show_json(token.content), " has ",
                        pattern.text.size(), " bytes when it is normalised: expected at most ", kMaxPatternBytes);
        const bool same = pattern.text == token.content;
        normalized_matcher_.add(
            same ? token.content : normalized_contents_.emplace(token.id, std::move(pattern.text)).first->second,
            &token);
    }
    raw_matcher_.finish();
    normalized_matcher_.finish();
    return {};
}

Result<void> JsonTokenizer::choose_specials(const Json& json, const std::string& path, const TokenizerConfig& config) {
    const auto choose = [this](const std::string& name, int32_t fallback) {
        const auto found = find(name);
        return name.empty() || !found.ok() ? fallback : *found;
    };
    bos_ = choose(config.bos, -1);
    eos_ = choose(config.eos, -1);
    unk_ = choose(config.unk, model_->unk());
    pad_ = choose(config.pad, -1);
    NL_ASSIGN(PostProcessor post_processor, PostProcessor::read(json.find("post_processor"), vocab_size_, path));
    before_ = std::move(post_processor.before);
    after_ = std::move(post_processor.after);
    // As the reference has it, these take the post-processor's place.
    if (config.add_bos.has_value() || config.add_eos.has_value()) {
        before_.clear();
        after_.clear();
        if (config.add_bos.value_or(false) && bos_ >= 0) before_.push_back(bos_);
        if (config.add_eos.value_or(false) && eos_ >= 0) after_.push_back(eos_);
    }
    return {};
}

Result<void> JsonTokenizer::encode_part(std::string_view text, const EncodeRules& rules, bool at_start,
                                        std::vector<int32_t>& tokens) const {
    WordEncoder encoder(*model_, text.size(), tokens);
    PreTokenizer::Cutter cutter(pre_tokenizer_, encoder);
    TokenMatcher::Parts parts(raw_matcher_, text, rules.filter);
    TextPart part;
    while (parts.next(part)) {
        if (part.token >= 0) {
            make_room(tokens, 1);
            tokens.push_back(part.token);
            continue;
        }
        const bool first = at_start && part.text.data() == text.data();
        if (normalizer_ == nullptr) {
            NL_TRY(encode_normalized(part.text, rules.filter, first, cutter, tokens));
            continue;
        }
        NormalText normal{std::string(part.text), first};
        NL_TRY(normalizer_->apply(normal));
        NL_TRY(encode_normalized(normal.text, rules.filter, normal.at_start, cutter, tokens));
    }
    return {};
}

Result<void> JsonTokenizer::encode_normalized(std::string_view text, const TokenFilter& filter, bool at_start,
                                              PreTokenizer::Cutter& cutter, std::vector<int32_t>& tokens) const {
    TokenMatcher::Parts parts(normalized_matcher_, text, filter);
    TextPart part;
    while (parts.next(part)) {
        if (part.token < 0) {
            NL_TRY(cutter.cut(part.text, at_start && part.text.data() == text.data()));
            continue;
        }
        make_room(tokens, 1);
        tokens.push_back(part.token);
    }
    return {};
}

Result<int32_t> JsonTokenizer::find(std::string_view piece) const {
    const auto added = added_ids_.find(piece);
    const int32_t token = added != added_ids_.end() ? added->second : vocabulary().find(piece);
    if (token < 0 || piece.empty()) return fail(NL_ERROR_NOT_FOUND, "the vocabulary has no piece ", show_json(piece));
    return token;
}

Result<std::string> JsonTokenizer::piece(int32_t token) const {
    NL_TRY(check_token(token));
    if (const AddedToken* added = added_token(token)) return added->content;
    return token < vocabulary().size() ? vocabulary().piece(token) : std::string();
}

Result<Tokenizer::Surface> JsonTokenizer::surface(int32_t token, bool is_first) const {
    NL_TRY(check_token(token));
    const AddedToken* const added = added_token(token);
    if (added != nullptr && added->special) return Surface{};
    NL_ASSIGN(std::string spelled, piece(token));
    // An id that is not used is no token to the reference.
    if (spelled.empty() && vocabulary().find(spelled) != token) return Surface{};
    // As the reference has it, what was found in the normalised text comes back so.
    if (const auto found = normalized_contents_.find(token); found != normalized_contents_.end())
        spelled = found->second;
    NL_ASSIGN(std::string bytes, decoder_->bytes(spelled, is_first));
    NL_ASSIGN(std::optional<std::string> last_bytes, decoder_->last_bytes(spelled));
    return Surface{std::move(bytes), true, std::move(last_bytes)};
}

using Model = std::unique_ptr<const TokenModel>;

// Only a byte-pair encoding takes words of raw bytes; for the others `pre_tokenizer` spells them.
Result<Model> read_model(const Json& json, PreTokenizer& pre_tokenizer, const std::string& path) {
    const JsonFields fields(json, path, "model.");
    NL_ASSIGN(const std::string type, fields.string_or("type", "BPE"));
    if (type == "BPE") {
        NL_ASSIGN(Model model, Bpe::read(json, pre_tokenizer.byte_level(), path));
        return model;
    }
    pre_tokenizer.spell_words();
    if (type == "Unigram") {
        NL_ASSIGN(Model model, Unigram::read(json, path));
        return model;
    }
    if (type == "WordLevel") {
        NL_ASSIGN(Model model, WordLevel::read(json, path));
        return model;
    }
    if (type != "WordPiece") return unknown_component(path, "model", type);
    NL_ASSIGN(Model model, WordPiece::read(json, path));
    return model;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> parse_json_tokenizer(std::string_view text, const std::string& path,
                                                              TokenizerConfig config) {
    NL_ASSIGN(const Json json, parse_json_like_serde(text, path, kMaxTokenizerJsonBytes));
    const Json* const model = json.find("model");
    if (model == nullptr || model->as<Json::Object>() == nullptr)
        return fail(NL_ERROR_BAD_MODEL, path, ": model is missing: expected an object");
    NL_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::read(json.find("pre_tokenizer"), path));
    NL_ASSIGN(auto token_model, read_model(*model, pre_tokenizer, path));
    auto tokenizer = std::make_shared<JsonTokenizer>(std::move(token_model), std::move(pre_tokenizer), false);
    NL_TRY(tokenizer->configure(json, path, std::move(config)));
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::shared_ptr<const Tokenizer>> assemble_tokenizer(std::unique_ptr<const TokenModel> model,
                                                            PreTokenizer pre_tokenizer, const Json& components,
                                                            const std::string& path, TokenizerConfig config) {
    auto tokenizer = std::make_shared<JsonTokenizer>(std::move(model), std::move(pre_tokenizer), true);
    NL_TRY(tokenizer->configure(components, path, std::move(config)));
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::shared_ptr<const Tokenizer>> load_json_tokenizer(const std::string& path, TokenizerConfig config) {
    auto text = read_file(path, kMaxTokenizerJsonBytes);
    if (!text.ok()) {
        if (text.error().status == NL_ERROR_NOT_FOUND) text.error().status = NL_ERROR_BAD_MODEL;
        return std::move(text.error());
    }
    return parse_json_tokenizer(*text, path, std::move(config));
}

}  // namespace nanolith
