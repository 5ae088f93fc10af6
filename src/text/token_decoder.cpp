#include "text/token_decoder.h"

#include <array>
#include <charconv>
#include <optional>

#include "text/byte_level.h"
#include "text/component.h"

namespace nanolith {
namespace {

constexpr const char* kDecoder = "decoder";

// The byte of a piece like <0x41>.
std::optional<char> fallback_byte(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
    uint8_t byte = 0;
    const auto [rest, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
    if (error != std::errc() || rest != piece.data() + 5) return std::nullopt;
    return static_cast<char>(byte);
}

}  // namespace

Result<TokenDecoder> TokenDecoder::read(const Json* json, const std::string& where) {
    TokenDecoder decoder;
    decoder.spaces_ = json == nullptr || json->is_null();
    if (!decoder.spaces_) NL_TRY(decoder.add(*json, where));
    return decoder;
}

Result<void> TokenDecoder::add(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "decoder.");
    NL_ASSIGN(const std::string type, read_type(fields, kDecoder));
    if (type == "Sequence") {
        NL_ASSIGN(const auto* const list, read_list(fields, "decoders"));
        for (const Json& member : *list) NL_TRY(add(member, where));
        return {};
    }
    if (word_pieces_.has_value() || !suffix_.empty())
        return fail(NL_ERROR_UNSUPPORTED, where, ": the decoder ", show_json(type), " stands after \"",
                    suffix_.empty() ? "WordPiece" : "BPEDecoder", "\", which is not supported");
    if (type == "Strip") return add_strip(json, where);
    // What stands after one of these would see no more tokens but one text.
    if (fused_ || byte_level_)
        return fail(NL_ERROR_UNSUPPORTED, where, ": the decoder ", show_json(type), " stands after \"",
                    fused_ ? "Fuse" : "ByteLevel", "\", which is not supported");
    if (type == "ByteLevel") {
        byte_level_ = true;
        return {};
    }
    if (type == "Fuse") {
        fused_ = true;
        return {};
    }
    if (type == "ByteFallback") {
        byte_fallback_ = true;
        return {};
    }
    if (type == "Metaspace") return add_metaspace(json, where);
    if (type == "WordPiece") return add_word_piece(json, where);
    if (type == "BPEDecoder") return add_suffix(json, where);
    if (type == "Replace") {
        if (byte_fallback_)
            return fail(NL_ERROR_UNSUPPORTED, where,
                        ": the decoder \"Replace\" stands after \"ByteFallback\", which is not supported");
        NL_ASSIGN(Pattern pattern, read_pattern(fields, where));
        NL_ASSIGN(std::string content, read_string(fields, "content"));
        replacements_.emplace_back(std::move(pattern), std::move(content));
        return {};
    }
    return unknown_component(where, kDecoder, type);
}

Result<void> TokenDecoder::add_metaspace(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "decoder.");
    NL_ASSIGN(const std::string symbol, fields.string_or("replacement", "\xE2\x96\x81"));
    NL_ASSIGN(const bool space, fields.boolean_or("add_prefix_space", true));
    NL_ASSIGN(const std::string scheme, fields.string_or("prepend_scheme", space ? "always" : "never"));
    if (scheme != "never") first_dropped_ = symbol;
    replacements_.emplace_back(Pattern::literal(symbol), " ");
    return {};
}

Result<void> TokenDecoder::add_strip(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "decoder.");
    NL_ASSIGN(const std::string content, read_string(fields, "content"));
    NL_ASSIGN(const int64_t start, fields.integer("start", 0, INT32_MAX));
    NL_ASSIGN(const int64_t stop, fields.integer("stop", 0, INT32_MAX));
    if (!fused_ || content != " " || start > 1 || stop != 0)
        return fail(NL_ERROR_UNSUPPORTED, where, ": the decoder \"Strip\" takes ", start, " leading and ", stop,
                    " trailing ", show_json(content),
                    fused_ ? ": expected one leading space at most" : ": expected it after \"Fuse\"");
    rules_.drops_first_space = start == 1;
    return {};
}

Result<void> TokenDecoder::check_alone(const char* type, const std::string& where) const {
    if (!byte_fallback_ && replacements_.empty()) return {};
    return fail(NL_ERROR_UNSUPPORTED, where, ": the decoder \"", type,
                "\" stands after another, which is not supported");
}

Result<void> TokenDecoder::add_suffix(const Json& json, const std::string& where) {
    NL_TRY(check_alone("BPEDecoder", where));
    const JsonFields fields(json, where, "decoder.");
    NL_ASSIGN(suffix_, read_string(fields, "suffix"));
    if (suffix_.empty()) return fields.wrong("suffix", "one that is not empty", NL_ERROR_UNSUPPORTED);
    return {};
}

Result<void> TokenDecoder::add_word_piece(const Json& json, const std::string& where) {
    NL_TRY(check_alone("WordPiece", where));
    const JsonFields fields(json, where, "decoder.");
    NL_ASSIGN(std::string prefix, read_string(fields, "prefix"));
    NL_ASSIGN(const bool cleanup, fields.boolean_or("cleanup", true));
    word_pieces_ = WordPieces{std::move(prefix), cleanup};
    return {};
}

Result<std::string> TokenDecoder::word_piece_text(std::string_view piece, bool is_first) const {
    // What the reference cleans up, one after the other, in each token with the space before it.
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleanups = {{{" .", "."},
                                                                                          {" ?", "?"},
                                                                                          {" !", "!"},
                                                                                          {" ,", ","},
                                                                                          {" ' ", "'"},
                                                                                          {" n't", "n't"},
                                                                                          {" 'm", "'m"},
                                                                                          {" do not", " don't"},
                                                                                          {" 's", "'s"},
                                                                                          {" 've", "'ve"},
                                                                                          {" 're", "'re"}}};
    const bool continues = piece.starts_with(word_pieces_->prefix);
    std::string text(is_first || continues ? "" : " ");
    text += piece.substr(continues && !is_first ? word_pieces_->prefix.size() : 0);
    if (!word_pieces_->cleanup) return text;
    for (const auto& [from, to] : kCleanups) {
        NL_ASSIGN(text, replace_all(text, Pattern::literal(from), to));
    }
    return text;
}

Result<std::string> TokenDecoder::bytes(std::string_view piece, bool is_first) const {
    if (word_pieces_.has_value()) return word_piece_text(piece, is_first);
    if (!suffix_.empty()) return replace_all(piece, Pattern::literal(suffix_), " ");
    if (spaces_) return std::string(is_first ? "" : " ").append(piece);
    std::string text(piece);
    if (byte_level_) {
        // A piece with a character that spells no byte stands for itself.
        if (auto bytes = byte_level_bytes(piece)) return *bytes;
        return text;
    }
    if (is_first && !first_dropped_.empty()) {
        NL_ASSIGN(text, replace_all(text, Pattern::literal(first_dropped_), ""));
    }
    for (const auto& [pattern, content] : replacements_) {
        NL_ASSIGN(text, replace_all(text, pattern, content));
    }
    if (byte_fallback_) {
        if (const auto byte = fallback_byte(text)) return std::string(1, *byte);
    }
    return text;
}

Result<std::optional<std::string>> TokenDecoder::last_bytes(std::string_view piece) const {
    if (suffix_.empty() || piece.find(suffix_) == std::string_view::npos) return std::optional<std::string>();
    NL_ASSIGN(std::string text, replace_all(piece, Pattern::literal(suffix_), ""));
    return std::optional<std::string>(std::move(text));
}

}  // namespace nanolith
