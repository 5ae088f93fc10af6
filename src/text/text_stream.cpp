#include "text/text_stream.h"

#include "text/utf8.h"

namespace nanolith {

Result<void> TextDecoder::push(const Tokenizer& tokenizer, int32_t token, std::string& text) {
    NL_ASSIGN(Tokenizer::Surface surface, tokenizer.surface(token, at_start_));
    const DecodeRules& rules = tokenizer.decode_rules();
    // The encoder put a space before the text: it is not the text's own.
    const bool drop = at_start_ && rules.drops_first_space && surface.is_text && surface.bytes.starts_with(' ');
    if (drop) surface.bytes.erase(0, 1);
    if (!surface.bytes.empty() || (surface.is_text && !rules.drops_leading_spaces)) at_start_ = false;
    waiting_ += surface.bytes;
    take_finished_utf8(waiting_, text);
    return {};
}

void TextDecoder::finish(std::string& text) {
    if (!waiting_.empty()) text += kReplacementCharacter;
    *this = TextDecoder();
}

}  // namespace nanolith
