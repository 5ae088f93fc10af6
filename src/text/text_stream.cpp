#include "text/text_stream.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace nanolith {

Result<void> TextDecoder::push(const Tokenizer& tokenizer, int32_t token, std::string& text) {
    NL_ASSIGN(Tokenizer::Surface surface, tokenizer.surface(token, at_start_));
    const DecodeRules& rules = tokenizer.decode_rules();
    // The encoder put a space before the text: it is not the text's own.
    const bool drop = at_start_ && rules.drops_first_space && surface.is_text && surface.bytes.starts_with(' ');
    if (drop) surface.bytes.erase(0, 1);
    if (!surface.bytes.empty() || (surface.is_text && !rules.drops_leading_spaces)) at_start_ = false;
    take(std::move(surface));
    take_finished_utf8(waiting_, text);
    return {};
}

// Puts a token's bytes behind those that wait, as far as they are certain.
void TextDecoder::take(Tokenizer::Surface surface) {
    if (surface.is_text) {
        waiting_ += std::exchange(inner_, {});
        last_.clear();
    }
    if (!surface.last_bytes.has_value()) {
        waiting_ += surface.bytes;
        return;
    }
    const std::string& last = *surface.last_bytes;
    const auto ends = std::mismatch(surface.bytes.begin(), surface.bytes.end(), last.begin(), last.end());
    waiting_.append(surface.bytes.begin(), ends.first);
    inner_.assign(ends.first, surface.bytes.end());
    last_.assign(ends.second, last.end());
}

void TextDecoder::finish(std::string& text) {
    waiting_ += last_;
    take_finished_utf8(waiting_, text);
    if (!waiting_.empty()) text += kReplacementCharacter;
    *this = TextDecoder();
}

}  // namespace nanolith
