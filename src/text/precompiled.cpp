#include "text/precompiled.h"

#include <utf8proc.h>

#include <cstdint>
#include <optional>

#include "text/base64.h"
#include "text/component.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

// Bytes of the extended grapheme cluster (Unicode Standard Annex 29) at the front of `text`, which must not be empty.
size_t grapheme_length(std::string_view text) {
    size_t length = 0;
    auto character = static_cast<utf8proc_int32_t>(first_character(text, length));
    utf8proc_int32_t state = 0;
    while (length < text.size()) {
        size_t next_length = 0;
        const auto next = static_cast<utf8proc_int32_t>(first_character(text.substr(length), next_length));
        if (utf8proc_grapheme_break_stateful(character, next, &state) != 0) break;
        length += next_length;
        character = next;
    }
    return length;
}

}  // namespace

Result<std::unique_ptr<const Normalizer>> Precompiled::read(const JsonFields& fields, const std::string& where) {
    NL_ASSIGN(const std::string text, read_string(fields, "precompiled_charsmap"));
    const std::optional<std::string> table = decode_base64(text);
    if (!table.has_value() || table->empty()) return fields.wrong("precompiled_charsmap", "a table in base64");
    if (const std::string problem = check_charsmap(*table); !problem.empty())
        return fail(NL_ERROR_BAD_MODEL, where, ": normalizer.precompiled_charsmap is damaged: ", problem);
    return std::unique_ptr<const Normalizer>(new Precompiled(*table));
}

bool Precompiled::replace(std::string_view part, std::string& out) const {
    // The shortest string that the part begins with decides, and the whole part goes. A zero byte ends the search.
    const Charsmap::Match match = charsmap_.shortest_at(part.substr(0, part.find('\0')));
    if (match.length == 0) return false;
    out += match.text;
    return true;
}

void Precompiled::append_grapheme(std::string_view grapheme, std::string& out) const {
    // Longer clusters are looked for character by character only.
    constexpr size_t kMaxBytes = 5;
    if (grapheme.size() <= kMaxBytes && replace(grapheme, out)) return;
    while (!grapheme.empty()) {
        size_t length = 0;
        first_character(grapheme, length);
        const std::string_view character = grapheme.substr(0, length);
        if (!replace(character, out)) out += character;
        grapheme.remove_prefix(length);
    }
}

Result<void> Precompiled::apply(NormalText& normal) const {
    constexpr size_t kMaxBytes = size_t{1} << 30U;
    std::string out;
    out.reserve(normal.text.size());
    std::string_view rest = normal.text;
    while (!rest.empty()) {
        const size_t length = grapheme_length(rest);
        append_grapheme(rest.substr(0, length), out);
        rest.remove_prefix(length);
        if (out.size() > kMaxBytes)
            return fail(NL_ERROR_INVALID_ARGUMENT, "the text becomes ", out.size(),
                        " bytes long before it is normalised to its end: expected at most ", kMaxBytes);
    }
    normal.text = std::move(out);
    return {};
}

}  // namespace nanolith
