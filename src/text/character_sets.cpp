#include "text/character_sets.h"

#include <algorithm>

#include "text/character_tables.h"

namespace nanolith {
namespace {

template <size_t N>
bool has(const std::array<CharacterRange, N>& ranges, char32_t character) {
    const auto found = std::lower_bound(ranges.begin(), ranges.end(), character,
                                        [](const CharacterRange& range, char32_t c) { return range.last < c; });
    return found != ranges.end() && found->first <= character;
}

}  // namespace

bool is_removed_by_bert(char32_t character) {
    return has(kOthers, character);
}

bool is_nonspacing_mark(char32_t character) {
    return has(kNonspacingMarks, character);
}

bool is_mark(char32_t character) {
    return has(kMarks, character);
}

bool has_normal_forms(char32_t character) {
    return has(kWithNormalForms, character);
}

}  // namespace nanolith
