// A text with its characters changed one by one, as normalizers do.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "text/normalizer.h"
#include "text/unicode.h"

namespace nanolith {

// Calls `change` (char32_t character, std::string& changed), which appends, for each character. Where that leaves the
// first one out, the text does not begin as the original does.
template <typename Change>
void for_each_character(NormalText& normal, Change&& change) {
    std::string changed;
    changed.reserve(normal.text.size());
    bool first = true;
    for (std::string_view rest = normal.text; !rest.empty(); first = false) {
        size_t length = 0;
        const char32_t character = first_character(rest, length);
        rest.remove_prefix(length);
        change(character, changed);
        if (first && changed.empty()) normal.at_start = false;
    }
    normal.text = std::move(changed);
}

}  // namespace nanolith
