#include "text/jinja/text.h"

#include <algorithm>

#include "text/unicode.h"

namespace nanolith::jinja {
namespace {

bool continues_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// Bytes of the character at the front, or where `back` at the back, if Python's str.strip() or str.strip(characters)
// takes it away; else 0.
size_t stripped_character(std::string_view text, const std::string* characters, bool back) {
    if (text.empty()) return 0;
    size_t begin = 0;
    size_t length = 0;
    if (back) {
        begin = text.size() - 1;
        while (begin > 0 && continues_character(text[begin])) --begin;
    }
    const char32_t character = first_character(text.substr(begin), length);
    if (characters == nullptr) {
        // Python takes four control characters for white space, which Unicode doesn't.
        const bool separator = character >= 0x1C && character <= 0x1F;
        return separator || is_white_space(character) ? length : 0;
    }
    return characters->find(text.substr(begin, length)) != std::string::npos ? length : 0;
}

}  // namespace

Text Text::foreign(std::string bytes) {
    Text text(std::move(bytes));
    text.mark(0, text.size());
    return text;
}

bool Text::has_foreign(size_t begin, size_t end) const {
    const auto after = std::upper_bound(foreign_.begin(), foreign_.end(), begin,
                                        [](size_t at, const Range& range) { return at < range.end; });
    return after != foreign_.end() && after->begin < end && begin < end;
}

Text Text::part(size_t begin, size_t end) const {
    Text result;
    result.append_part(*this, begin, end);
    return result;
}

void Text::append_part(const Text& other, size_t begin, size_t end) {
    const size_t shift = bytes_.size();
    bytes_.append(other.bytes_, begin, end - begin);
    auto range = std::upper_bound(other.foreign_.begin(), other.foreign_.end(), begin,
                                  [](size_t at, const Range& r) { return at < r.end; });
    for (; range != other.foreign_.end() && range->begin < end; ++range)
        mark(shift + std::max(range->begin, begin) - begin, shift + std::min(range->end, end) - begin);
}

void Text::append_foreign(std::string_view bytes) {
    const size_t begin = bytes_.size();
    bytes_ += bytes;
    mark(begin, bytes_.size());
}

void Text::mark(size_t begin, size_t end) {
    if (begin == end) return;
    if (!foreign_.empty() && foreign_.back().end == begin) {
        foreign_.back().end = end;
    } else {
        foreign_.push_back({begin, end});
    }
}

Range strip_range(std::string_view text, const std::string* characters, bool front, bool back) {
    Range range{0, text.size()};
    while (front) {
        const size_t length = stripped_character(text.substr(range.begin), characters, false);
        if (length == 0) break;
        range.begin += length;
    }
    while (back) {
        const size_t length = stripped_character(text.substr(range.begin, range.end - range.begin), characters, true);
        if (length == 0) break;
        range.end -= length;
    }
    return range;
}

std::vector<size_t> character_offsets(std::string_view text) {
    std::vector<size_t> offsets;
    for (size_t i = 0; i < text.size(); ++i) {
        if (!continues_character(text[i])) offsets.push_back(i);
    }
    offsets.push_back(text.size());
    return offsets;
}

size_t count_characters(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

}  // namespace nanolith::jinja
