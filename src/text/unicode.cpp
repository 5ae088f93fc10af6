#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "text/character_sets.h"

namespace nanolith {
namespace {

bool is_known(utf8proc_int32_t character) {
    return has_normal_forms(static_cast<char32_t>(character));
}

int combining_class(utf8proc_int32_t character) {
    return is_known(character) ? utf8proc_get_property(character)->combining_class : 0;
}

// Puts every run of combining marks in its canonical order. utf8proc's own way takes quadratic time.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
    for (auto at = characters.begin(); at != characters.end();) {
        if (combining_class(*at) == 0) {
            ++at;
            continue;
        }
        const auto end = std::find_if(at, characters.end(), [](auto c) { return combining_class(c) == 0; });
        std::stable_sort(at, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
        at = end;
    }
}

std::vector<utf8proc_int32_t> decompose(std::string_view text, bool compatible) {
    // The longest decomposition is of 18 characters (U+FDFA).
    std::array<utf8proc_int32_t, 32> parts{};
    const auto options =
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
    std::vector<utf8proc_int32_t> characters;
    characters.reserve(text.size());
    int boundary = 0;
    while (!text.empty()) {
        size_t length = 0;
        const auto character = static_cast<utf8proc_int32_t>(first_character(text, length));
        text.remove_prefix(length);
        if (!is_known(character)) {
            characters.push_back(character);
            continue;
        }
        const auto count = utf8proc_decompose_char(character, parts.data(), parts.size(), options, &boundary);
        if (count < 0 || static_cast<size_t>(count) > parts.size()) {
            characters.push_back(character);
        } else {
            characters.insert(characters.end(), parts.begin(), parts.begin() + count);
        }
    }
    return characters;
}

// Puts together what stands between characters that nothing is put together with.
void compose(std::vector<utf8proc_int32_t>& characters) {
    constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    auto end = characters.begin();  // of what is done
    for (auto at = characters.begin(); at != characters.end();) {
        const auto next = std::find_if_not(at, characters.end(), is_known);
        const auto left = utf8proc_normalize_utf32(&*at, next - at, kOptions);
        end = std::copy(at, left >= 0 ? at + left : next, end);
        at = next;
        if (at != characters.end()) *end++ = *at++;
    }
    characters.erase(end, characters.end());
}

// Whether the form leaves the text as it is, for texts where that is easily seen: all characters below U+0300 are in
// composed form already, but some there have a compatible decomposition.
bool is_plain(std::string_view text, NormalForm form) {
    const auto limit = static_cast<char>(form == NormalForm::nfc ? 0xCC : 0x80);  // U+0300 is written CC 80
    return std::all_of(text.begin(), text.end(),
                       [limit](char c) { return static_cast<uint8_t>(c) < static_cast<uint8_t>(limit); });
}

}  // namespace

std::string normalize_unicode(std::string_view text, NormalForm form) {
    if (is_plain(text, form)) return std::string(text);
    const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
    auto characters = decompose(text, form == NormalForm::nfkc || form == NormalForm::nfkd);
    order_marks(characters);
    if (composed) compose(characters);
    std::string normalized;
    normalized.reserve(text.size());
    for (const auto character : characters) append_character(normalized, static_cast<char32_t>(character));
    return normalized;
}

std::string lower_case(std::string_view text) {
    std::string lower;
    lower.reserve(text.size());
    while (!text.empty()) {
        size_t length = 0;
        const char32_t character = first_character(text, length);
        text.remove_prefix(length);
        // The only character whose lower case is two.
        if (character == 0x130) {
            lower += "i\xCC\x87";
        } else {
            append_character(lower, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
        }
    }
    return lower;
}

char32_t first_character(std::string_view text, size_t& length) {
    const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
    const char32_t lead = byte(0);
    length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length == 1) return lead;
    char32_t character = lead & (0xFFU >> (length + 1));
    length = std::min(length, text.size());
    for (size_t i = 1; i < length; ++i) character = character << 6U | (byte(i) & 0x3FU);
    return character;
}

void append_character(std::string& text, char32_t character) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
    text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

int64_t count_characters(std::string_view text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80; });
}

bool is_white_space(char32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(char32_t character) {
    if (character == 0x200C || character == 0x200D) return true;
    // Letters by property that are symbols by category: circled and squared ones.
    if ((character >= 0x24B6 && character <= 0x24E9) || (character >= 0x1F130 && character <= 0x1F149) ||
        (character >= 0x1F150 && character <= 0x1F169) || (character >= 0x1F170 && character <= 0x1F189))
        return true;
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_PC:
            return true;
        default:
            return false;
    }
}

size_t leading_white_space(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
        size_t length = 0;
        if (!is_white_space(first_character(text.substr(at), length))) break;
        at += length;
    }
    return at;
}

size_t trailing_white_space(std::string_view text) {
    size_t begin = text.size();
    while (begin > 0) {
        size_t at = begin - 1;
        while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80) --at;
        size_t length = 0;
        if (!is_white_space(first_character(text.substr(at), length))) break;
        begin = at;
    }
    return text.size() - begin;
}

}  // namespace nanolith
