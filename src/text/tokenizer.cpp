#include "text/tokenizer.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <utility>

#include "files/mapped_file.h"
#include "text/text_stream.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// A vocabulary of 256,000 pieces takes about 5 MB.
constexpr size_t kMaxFileBytes = size_t{64} << 20U;
// libsentencepiece counts in int, and normalisation may lengthen a text many times.
constexpr size_t kMaxTextBytes = size_t{64} << 20U;
// How a vocabulary writes a space: U+2581.
constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

// NOT_FOUND only where there is no such file: a folder without a tokenizer is one thing, a tokenizer that can't be
// opened another.
Result<MappedFile> open_model_file(const std::string& path) {
    if (!file_exists(path)) return fail(NL_ERROR_NOT_FOUND, path, " does not exist");
    auto file = MappedFile::open(path);
    if (!file.ok() && file.error().status == NL_ERROR_NOT_FOUND) file.error().status = NL_ERROR_BAD_MODEL;
    if (file.ok() && file->text().size() > kMaxFileBytes)
        return fail(NL_ERROR_BAD_MODEL, path, " has ", file->text().size(), " bytes, expected at most ", kMaxFileBytes);
    return file;
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

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& folder) {
    const std::string path = folder + "/tokenizer.model";
    NL_ASSIGN(const MappedFile file, open_model_file(path));
    const std::string_view bytes = file.text();
    NL_ASSIGN(SentencePieceFacts facts, read_sentencepiece_file(bytes, path));
    auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
    try {
        const auto status = processor->LoadFromSerializedProto(bytes);
        if (!status.ok()) return fail(NL_ERROR_BAD_MODEL, path, ": ", status.ToString());
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& e) {  // its double array throws on pieces that it can't hold
        return fail(NL_ERROR_BAD_MODEL, path, ": ", e.what());
    }
    return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(processor), std::move(facts)));
}

Tokenizer::Tokenizer(std::unique_ptr<sentencepiece::SentencePieceProcessor> processor, SentencePieceFacts facts)
    : processor_(std::move(processor)), facts_(std::move(facts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, uint32_t flags) const {
    constexpr uint32_t kKnownFlags = NL_ENCODE_ADD_BOS | NL_ENCODE_ADD_EOS;
    if ((flags & ~kKnownFlags) != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "flags is ", flags, ", expected a sum of NL_ENCODE_* flags");
    if (text.size() > kMaxTextBytes)
        return fail(NL_ERROR_INVALID_ARGUMENT, "text_length is ", text.size(), ", expected at most ", kMaxTextBytes);
    const bool add_bos = (flags & NL_ENCODE_ADD_BOS) != 0;
    const bool add_eos = (flags & NL_ENCODE_ADD_EOS) != 0;
    if (add_bos && bos() < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "flags has NL_ENCODE_ADD_BOS, but the tokenizer has no beginning-of-sequence token");
    if (add_eos && eos() < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "flags has NL_ENCODE_ADD_EOS, but the tokenizer has no end-of-sequence token");

    std::vector<int> pieces;
    const auto status = processor_->Encode(replace_invalid_utf8(text), &pieces);
    if (!status.ok()) return fail(NL_ERROR_INTERNAL, "libsentencepiece: ", status.ToString());
    std::vector<int32_t> tokens;
    tokens.reserve(pieces.size() + 2);
    if (add_bos) tokens.push_back(bos());
    tokens.insert(tokens.end(), pieces.begin(), pieces.end());
    if (add_eos) tokens.push_back(eos());
    return tokens;
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> tokens) const {
    std::string text;
    TextDecoder decoder;
    for (const int32_t token : tokens) NL_TRY(decoder.push(*this, token, text));
    decoder.finish(text);
    return text;
}

int32_t Tokenizer::vocab_size() const {
    return processor_->GetPieceSize();
}
int32_t Tokenizer::bos() const {
    return processor_->bos_id();
}
int32_t Tokenizer::eos() const {
    return processor_->eos_id();
}
int32_t Tokenizer::unk() const {
    return processor_->unk_id();
}
int32_t Tokenizer::pad() const {
    return processor_->pad_id();
}

Result<int32_t> Tokenizer::find(std::string_view piece) const {
    // libsentencepiece answers with the unknown token for what it does not know.
    const int32_t token = processor_->PieceToId(piece);
    if (token < 0 || token >= vocab_size() || processor_->IdToPiece(token) != piece)
        return fail(NL_ERROR_NOT_FOUND, "the vocabulary has no piece \"", replace_invalid_utf8(piece), "\"");
    return token;
}

Result<std::string> Tokenizer::piece(int32_t token) const {
    NL_TRY(check_token(token));
    return processor_->IdToPiece(token);
}

Result<Tokenizer::Surface> Tokenizer::surface(int32_t token) const {
    NL_TRY(check_token(token));
    if (processor_->IsControl(token)) return Surface{};
    if (processor_->IsUnknown(token)) return Surface{facts_.unknown_text, false};
    const std::string& piece = processor_->IdToPiece(token);
    if (!processor_->IsByte(token)) return Surface{with_spaces(piece), true};
    // Written <0x41>: libsentencepiece refuses a file whose byte tokens are not.
    return Surface{std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))), false};
}

Result<void> Tokenizer::check_token(int32_t token) const {
    if (token >= 0 && token < vocab_size()) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "token is ", token, ", expected 0 to ", vocab_size() - 1);
}

}  // namespace nanolith
