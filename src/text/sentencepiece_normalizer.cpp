#include "text/sentencepiece_normalizer.h"

#include <algorithm>

#include "text/space_symbol.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// How a vocabulary writes a space: U+2581.

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceFacts& facts)
    : facts_(&facts), charsmap_(facts.charsmap) {
    for (const std::string& symbol : facts.symbols) symbols_.add(symbol, 0);
    symbols_.finish();
}

SentencePieceNormalizer::Reader::Reader(const SentencePieceNormalizer& normalizer, std::string_view text,
                                        bool adds_space)
    : normalizer_(&normalizer),
      facts_(normalizer.facts_),
      rest_(text),
      adds_space_(adds_space),
      behind_space_(facts_->removes_extra_spaces) {
    while (facts_->removes_extra_spaces && !rest_.empty()) {
        const std::string_view before = rest_;
        if (next() == " ") continue;
        rest_ = before;
        break;
    }
    if (rest_.empty()) adds_space_ = false;  // a text of nothing but spaces gets none
    if (adds_space_ && !facts_->spaces_stand_after) spaces_ = 1;
}

std::string_view SentencePieceNormalizer::Reader::next() {
    size_t length = normalizer_->symbols_.longest_at(rest_).length;
    std::string_view text = rest_.substr(0, length);
    if (length == 0) {
        const Charsmap::Match match = normalizer_->charsmap_.longest_at(rest_);
        length = match.length > 0 ? match.length : next_utf8(rest_).length;
        text = match.length > 0 ? match.text : rest_.substr(0, length);
    }
    rest_.remove_prefix(length);
    return text;
}

void SentencePieceNormalizer::Reader::take_next() {
    ready_ = next();
    while (behind_space_ && ready_.starts_with(' ')) ready_.remove_prefix(1);
    if (!ready_.empty()) behind_space_ = facts_->removes_extra_spaces && ready_.ends_with(' ');
}

// At the end of the text: which of the spaces there stay.
void SentencePieceNormalizer::Reader::end() {
    if (facts_->removes_extra_spaces) spaces_ = 0;
    if (adds_space_ && facts_->spaces_stand_after) ++spaces_;
    ended_ = true;
}

// Gives a space or a character, or counts a space in.
void SentencePieceNormalizer::Reader::give(std::string& out) {
    const bool symbol = facts_->escapes_spaces && ready_.starts_with(kSpaceSymbol);
    if (symbol || ready_.starts_with(' ')) {
        ++spaces_;
        ready_.remove_prefix(symbol ? kSpaceSymbol.size() : 1);
    } else if (spaces_ > 0) {
        out += facts_->escapes_spaces ? kSpaceSymbol : " ";
        --spaces_;
    } else {
        const size_t length = next_utf8(ready_).length;
        out += ready_.substr(0, length);
        ready_.remove_prefix(length);
    }
}

void SentencePieceNormalizer::Reader::read(std::string& out, size_t bytes) {
    while (out.size() < bytes) {
        if (!ready_.empty()) {
            give(out);
        } else if (!rest_.empty()) {
            take_next();
        } else if (!ended_) {
            end();
        } else if (spaces_ > 0) {
            out += facts_->escapes_spaces ? kSpaceSymbol : " ";
            --spaces_;
        } else {
            done_ = true;
            return;
        }
    }
}

}  // namespace nanolith
