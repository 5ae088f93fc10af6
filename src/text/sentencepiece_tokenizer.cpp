#include "text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <unordered_map>
#include <utility>

#include "files/open_file.h"
#include "text/part_workers.h"
#include "text/piece_cuts.h"
#include "text/sentencepiece_file.h"
#include "text/sentencepiece_normalizer.h"
#include "text/space_symbol.h"
#include "text/token_list.h"

namespace nanolith {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

// A vocabulary of 256,000 pieces takes about 5 MB.
constexpr size_t kMaxSentencePieceBytes = size_t{64} << 20U;
// Most ids that added tokens may leave unused after the model's pieces.
constexpr int32_t kMaxUnusedTokens = 1 << 16;
// A text that is cut has its cuts where the first allowed place after so many bytes is: the longest part's size divided
// by this. Parts are then small enough for several threads to be busy.
constexpr size_t kPartsInLongest = 16;
// How a vocabulary writes a space: U+2581.

// NOT_FOUND only where there is no such file: a folder without a tokenizer is one thing, a tokenizer that can't be
// opened another.
Result<std::string> read_model_file(const std::string& path) {
    auto bytes = read_file(path, kMaxSentencePieceBytes);
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
    SentencePieceTokenizer(std::unique_ptr<Processor> processor, SentencePieceFacts facts, size_t part_bytes)
        : processor_(std::move(processor)), facts_(std::move(facts)), normalizer_(facts_), part_bytes_(part_bytes) {}

    Result<void> configure(const std::string& path, TokenizerConfig config);

    [[nodiscard]] Result<void> encode_part(std::string_view text, const EncodeRules& rules, bool at_start,
                                           std::vector<int32_t>& tokens) const override;
    [[nodiscard]] int32_t vocab_size() const override { return vocab_size_; }
    [[nodiscard]] Result<int32_t> find(std::string_view piece) const override;
    [[nodiscard]] Result<std::string> piece(int32_t token) const override;
    [[nodiscard]] Result<Surface> surface(int32_t token, bool is_first) const override;

  private:
    class Work;

    Result<void> add_tokens(const std::string& path);
    void fill_cuts();
    void choose_specials(const TokenizerConfig& config);
    [[nodiscard]] int32_t num_pieces() const { return processor_->GetPieceSize(); }

    std::unique_ptr<const Processor> processor_;  // of normalised text
    SentencePieceFacts facts_;
    SentencePieceNormalizer normalizer_;
    PieceCuts cuts_;
    size_t part_bytes_;          // of normalised text that libsentencepiece gets at most
    bool adds_space_ = false;    // before a text
    bool spaces_parts_ = false;  // and before what stands after an added token
    TokenMatcher matcher_;
    std::unordered_map<std::string_view, int32_t> added_ids_;  // of added_tokens_
    int32_t vocab_size_ = 0;
};

Result<void> SentencePieceTokenizer::configure(const std::string& path, TokenizerConfig config) {
    added_tokens_ = std::move(config.added_tokens);
    chat_template_ = std::move(config.chat_template);
    NL_TRY(add_tokens(path));
    fill_cuts();
    adds_space_ = config.add_prefix_space.value_or(facts_.adds_first_space);
    spaces_parts_ = adds_space_ && (config.legacy.value_or(false) || added_tokens_.empty());
    rules_ = {adds_space_ || facts_.removes_extra_spaces, facts_.removes_extra_spaces};
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

void SentencePieceTokenizer::fill_cuts() {
    PieceIndex index;
    for (int32_t token = 0; token < num_pieces(); ++token) {
        // The others are never made of text.
        if (!processor_->IsControl(token) && !processor_->IsUnknown(token) && !processor_->IsByte(token))
            index.add(processor_->IdToPiece(token), token);
    }
    index.finish();
    cuts_ = PieceCuts(std::move(index), facts_.knows_words_alone);
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
    if (config.add_eos.value_or(false) && eos_ >= 0) after_.push_back(eos_);
}

// Cuts a text into parts that sentencepiece encodes one by one, and joins their tokens. The cuts depend on the text and
// the vocabulary alone, so the tokens are the same for any number of threads.
class SentencePieceTokenizer::Work final : public PartWork {
  public:
    Work(const SentencePieceTokenizer& tokenizer, std::string_view text, const TokenFilter& filter, bool at_start,
         std::vector<int32_t>& tokens)
        : tokenizer_(&tokenizer),
          parts_(tokenizer.matcher_, text, filter),
          start_(at_start ? text.data() : nullptr),
          tokens_(&tokens) {}

    bool next(EncodedPart& part) override {
        while (true) {
            if (reader_.has_value() && cut(part)) return true;
            TextPart found;
            if (!parts_.next(found)) return false;
            if (found.token >= 0) {
                part.token = found.token;
                return true;
            }
            const bool first = found.text.data() == start_;
            reader_.emplace(tokenizer_->normalizer_, found.text,
                            first ? tokenizer_->adds_space_ : tokenizer_->spaces_parts_);
            continues_ = false;
        }
    }

    [[nodiscard]] Result<void> encode(const EncodedPart& part, std::vector<int32_t>& tokens) const override {
        const auto status = tokenizer_->processor_->Encode(part.text, &tokens);
        if (!status.ok()) return fail(NL_ERROR_INTERNAL, "libsentencepiece: ", status.ToString());
        return {};
    }

    [[nodiscard]] Result<void> take(const EncodedPart& part, const std::vector<int32_t>& tokens) override {
        if (!part.continues) first_ = tokens_->size();
        if (part.too_long)
            return fail(NL_ERROR_INVALID_ARGUMENT, "the text has more than ", kMaxPartBytes,
                        " bytes (when it is normalised) after its token ", tokens_->size() - first_,
                        " without a place that no piece of the vocabulary reaches across: expected one in so many");
        make_room(*tokens_, tokens.size() + 1);
        if (part.token >= 0) tokens_->push_back(part.token);
        tokens_->insert(tokens_->end(), tokens.begin() + (joins(tokens) ? 1 : 0), tokens.end());
        return {};
    }

  private:
    // The next part of the text that reader_ has; false at its end.
    bool cut(EncodedPart& part) {
        reader_->read(waiting_, kMaxPartBytes + 1);
        const size_t least = std::max<size_t>(1, tokenizer_->part_bytes_ / kPartsInLongest);
        size_t length = waiting_.size();
        if (!reader_->done() || length > (continues_ ? 2 * least : tokenizer_->part_bytes_)) {
            const auto place = tokenizer_->cuts_.find(waiting_, least, !reader_->done());
            part.too_long = !place && (!reader_->done() || length > kMaxPartBytes);
            length = place.value_or(length);
        }
        part.continues = std::exchange(continues_, true);
        if (!part.too_long) part.text = waiting_.substr(0, length);
        waiting_.erase(0, length);
        if (waiting_.empty() && reader_->done()) reader_.reset();
        return length > 0;
    }

    // A run of unknown characters is one token, which the part before may have begun.
    [[nodiscard]] bool joins(const std::vector<int32_t>& tokens) const {
        const Processor& processor = *tokenizer_->processor_;
        return tokens_->size() > first_ && !tokens.empty() && !tokenizer_->facts_.has_byte_tokens &&
               processor.IsUnknown(tokens_->back()) && processor.IsUnknown(tokens.front());
    }

    const SentencePieceTokenizer* tokenizer_;
    TokenMatcher::Parts parts_;
    const char* start_;  // of a text that nothing stands before; else null
    std::vector<int32_t>* tokens_;
    size_t first_ = 0;  // the tokens of the text that is taken now begin here

    // Of the text between two tokens that is cut now.
    std::optional<SentencePieceNormalizer::Reader> reader_;
    std::string waiting_;  // what it gave that is in no part yet
    bool continues_ = false;
};

Result<void> SentencePieceTokenizer::encode_part(std::string_view text, const EncodeRules& rules, bool at_start,
                                                 std::vector<int32_t>& tokens) const {
    Work work(*this, text, rules.filter, at_start, tokens);
    const size_t worth = std::max<size_t>(1, text.size() / part_bytes_);
    return work_on_parts(work, static_cast<int32_t>(std::min<size_t>(worth, static_cast<size_t>(rules.max_threads))));
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

Result<std::shared_ptr<const Tokenizer>> load_sentencepiece(const std::string& path, TokenizerConfig config,
                                                            size_t part_bytes) {
    NL_ASSIGN(const std::string bytes, read_model_file(path));
    if (is_tiktoken(bytes))
        return fail(NL_ERROR_UNSUPPORTED, path,
                    " is a vocabulary of tiktoken: expected a SentencePiece model, or tokenizer.json beside it. "
                    "Transformers makes the latter: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)");
    return parse_sentencepiece(bytes, path, std::move(config), part_bytes);
}

Result<std::shared_ptr<const Tokenizer>> parse_sentencepiece(std::string_view bytes, const std::string& path,
                                                             TokenizerConfig config, size_t part_bytes) {
    NL_ASSIGN(SentencePieceFacts facts, read_sentencepiece_file(bytes, path));
    NL_ASSIGN(auto processor, make_processor(without_normalizer(bytes), path));
    auto tokenizer = std::make_shared<SentencePieceTokenizer>(std::move(processor), std::move(facts), part_bytes);
    NL_TRY(tokenizer->configure(path, std::move(config)));
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

}  // namespace nanolith
