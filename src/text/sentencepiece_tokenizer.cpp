#include "text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

#include "files/open_file.h"
#include "text/sentencepiece_file.h"

namespace nanolith {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

// A vocabulary of 256,000 pieces takes about 5 MB.
constexpr size_t kMaxFileBytes = size_t{64} << 20U;
// Most ids that added tokens may leave unused behind the model's pieces.
constexpr int32_t kMaxUnusedTokens = 1 << 16;
// How a vocabulary writes a space: U+2581.
constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";
// A ModelProto with a normalizer_spec of add_dummy_prefix alone: behind a model's bytes it replaces that field.
constexpr std::string_view kWithPrefix("\x1A\x02\x18\x01", 4);
constexpr std::string_view kWithoutPrefix("\x1A\x02\x18\x00", 4);

// NOT_FOUND only where there is no such file: a folder without a tokenizer is one thing, a tokenizer that can't be
// opened another.
Result<std::string> read_model_file(const std::string& path) {
    auto bytes = read_file(path, kMaxFileBytes);
    if (!bytes.ok() && bytes.error().status == NL_ERROR_NOT_FOUND) bytes.error().status = NL_ERROR_BAD_MODEL;
    return bytes;
}

// Whether a file has lines of base64 and a rank, as tiktoken's vocabularies do: Llama 3 and others have one that is
// called tokenizer.model too.
bool is_tiktoken(std::string_view bytes) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == line.size()) return false;
    const auto is_base64 = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/' ||
               c == '=';
    };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return std::ranges::all_of(line.substr(0, space), is_base64) &&
           std::ranges::all_of(line.substr(space + 1), is_digit);
}

Result<std::unique_ptr<Processor>> make_processor(std::string_view bytes, const std::string& path) {
    auto processor = std::make_unique<Processor>();
    try {
        const auto status = processor->LoadFromSerializedProto(bytes);
        if (!status.ok()) return fail(NL_ERROR_BAD_MODEL, path, ": ", status.ToString());
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& e) {  // its double array throws on pieces that it can't hold
        return fail(NL_ERROR_BAD_MODEL, path, ": ", e.what());
    }
    return processor;
}

std::string with_spaces(std::string_view piece) {
    std::string text;
    while (!piece.empty()) {
        const bool space = piece.starts_with(kSpaceSymbol);
        text += space ? ' ' : piece.front();
        piece.remove_prefix(space ? kSpaceSymbol.size() : 1);
    }
    return text;
}

class SentencePieceTokenizer final : public Tokenizer {
  public:
    SentencePieceTokenizer(std::unique_ptr<Processor> processor, SentencePieceFacts facts)
        : processor_(std::move(processor)), facts_(std::move(facts)) {}

    Result<void> configure(std::string_view bytes, const std::string& path, TokenizerConfig config);

    [[nodiscard]] Result<void> encode_part(std::string_view text, const TokenFilter& filter, bool at_start,
                                           std::vector<int32_t>& tokens) const override;
    [[nodiscard]] int32_t vocab_size() const override { return vocab_size_; }
    [[nodiscard]] Result<int32_t> find(std::string_view piece) const override;
    [[nodiscard]] Result<std::string> piece(int32_t token) const override;
    [[nodiscard]] Result<Surface> surface(int32_t token, bool is_first) const override;

  private:
    Result<void> add_tokens(const std::string& path);
    Result<void> choose_prefix(std::string_view bytes, const std::string& path, const TokenizerConfig& config);
    void choose_specials(const TokenizerConfig& config);
    [[nodiscard]] int32_t num_pieces() const { return processor_->GetPieceSize(); }

    std::unique_ptr<const Processor> processor_;
    std::unique_ptr<const Processor> inner_;  // for text that is not at the beginning; null where that is the same
    SentencePieceFacts facts_;
    TokenMatcher matcher_;
    std::unordered_map<std::string_view, int32_t> added_ids_;  // of added_tokens_
    int32_t vocab_size_ = 0;
};

Result<void> SentencePieceTokenizer::configure(std::string_view bytes, const std::string& path,
                                               TokenizerConfig config) {
    added_tokens_ = std::move(config.added_tokens);
    chat_template_ = std::move(config.chat_template);
    NL_TRY(add_tokens(path));
    NL_TRY(choose_prefix(bytes, path, config));
    choose_specials(config);
    return {};
}

Result<void> SentencePieceTokenizer::add_tokens(const std::string& path) {
    vocab_size_ = num_pieces();
    for (const AddedToken& token : added_tokens_) {
        if (token.id > vocab_size_ + kMaxUnusedTokens)
            return fail(NL_ERROR_BAD_MODEL, path, " has ", num_pieces(), " pieces, but the added token ",
                        show_json(token.content), " beside it has the id ", token.id);
        vocab_size_ = std::max(vocab_size_, token.id + 1);
        matcher_.add(token.content, &token);
        if (!added_ids_.emplace(token.content, token.id).second)
            return fail(NL_ERROR_BAD_MODEL, path, ": the token ", show_json(token.content),
                        " is added twice beside it");
    }
    matcher_.finish();
    return {};
}

Result<void> SentencePieceTokenizer::choose_prefix(std::string_view bytes, const std::string& path,
                                                   const TokenizerConfig& config) {
    const bool prefix = config.add_prefix_space.value_or(facts_.adds_first_space);
    if (prefix != facts_.adds_first_space) {
        NL_ASSIGN(processor_, make_processor(std::string(bytes).append(prefix ? kWithPrefix : kWithoutPrefix), path));
    }
    if (prefix && !config.legacy.value_or(false) && !added_tokens_.empty()) {
        NL_ASSIGN(inner_, make_processor(std::string(bytes).append(kWithoutPrefix), path));
    }
    rules_ = {prefix || facts_.removes_extra_spaces, facts_.removes_extra_spaces};
    return {};
}

void SentencePieceTokenizer::choose_specials(const TokenizerConfig& config) {
    const auto choose = [this](const std::string& name, int32_t own) {
        const auto found = find(name);
        return name.empty() || !found.ok() ? own : *found;
    };
    bos_ = choose(config.bos, processor_->bos_id());
    eos_ = choose(config.eos, processor_->eos_id());
    unk_ = choose(config.unk, processor_->unk_id());
    pad_ = choose(config.pad, processor_->pad_id());
    if (config.add_bos.value_or(false) && bos_ >= 0) before_.push_back(bos_);
    if (config.add_eos.value_or(false) && eos_ >= 0) behind_.push_back(eos_);
}

Result<void> SentencePieceTokenizer::encode_part(std::string_view text, const TokenFilter& filter, bool at_start,
                                                 std::vector<int32_t>& tokens) const {
    std::vector<TextPart> parts;
    matcher_.split(text, filter, parts);
    std::vector<int> pieces;
    for (const TextPart& part : parts) {
        if (part.token >= 0) {
            tokens.push_back(part.token);
        } else {
            const bool first = at_start && part.text.data() == text.data();
            const Processor& processor = first || inner_ == nullptr ? *processor_ : *inner_;
            const auto status = processor.Encode(part.text, &pieces);
            if (!status.ok()) return fail(NL_ERROR_INTERNAL, "libsentencepiece: ", status.ToString());
            tokens.insert(tokens.end(), pieces.begin(), pieces.end());
        }
    }
    return {};
}

Result<int32_t> SentencePieceTokenizer::find(std::string_view piece) const {
    const auto added = added_ids_.find(piece);
    if (added != added_ids_.end()) return added->second;
    // libsentencepiece answers with the unknown token for what it does not know.
    const int32_t token = processor_->PieceToId(piece);
    if (token < 0 || token >= num_pieces() || processor_->IdToPiece(token) != piece)
        return fail(NL_ERROR_NOT_FOUND, "the vocabulary has no piece ", show_json(piece));
    return token;
}

Result<std::string> SentencePieceTokenizer::piece(int32_t token) const {
    NL_TRY(check_token(token));
    if (const AddedToken* added = added_token(token)) return added->content;
    return token < num_pieces() ? processor_->IdToPiece(token) : std::string();
}

Result<Tokenizer::Surface> SentencePieceTokenizer::surface(int32_t token, bool /*is_first*/) const {
    NL_TRY(check_token(token));
    if (token < num_pieces() && processor_->IsUnknown(token)) return Surface{facts_.unknown_text, false};
    if (const AddedToken* added = added_token(token)) return Surface{added->special ? "" : added->content, false};
    if (token >= num_pieces() || processor_->IsControl(token)) return Surface{};
    const std::string& piece = processor_->IdToPiece(token);
    if (!processor_->IsByte(token)) return Surface{with_spaces(piece), true};
    // Written <0x41>: libsentencepiece refuses a file whose byte tokens are not.
    return Surface{std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))), false};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_sentencepiece(const std::string& path, TokenizerConfig config) {
    NL_ASSIGN(const std::string bytes, read_model_file(path));
    if (is_tiktoken(bytes))
        return fail(NL_ERROR_UNSUPPORTED, path,
                    " is a vocabulary of tiktoken: expected a SentencePiece model, or tokenizer.json beside it. "
                    "Transformers makes the latter: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)");
    NL_ASSIGN(SentencePieceFacts facts, read_sentencepiece_file(bytes, path));
    NL_ASSIGN(auto processor, make_processor(bytes, path));
    auto tokenizer = std::make_shared<SentencePieceTokenizer>(std::move(processor), std::move(facts));
    NL_TRY(tokenizer->configure(bytes, path, std::move(config)));
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

}  // namespace nanolith
