#include "text/piece_cuts.h"

#include <algorithm>

#include "text/space_symbol.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

bool continues_character(char byte) {
    return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80;
}

}  // namespace

std::optional<size_t> PieceCuts::find(std::string_view text, size_t from, bool goes_on) const {
    const size_t unsure = goes_on ? index_.longest() : 0;
    if (text.size() <= unsure) return std::nullopt;
    const size_t end = text.size() - unsure;
    const auto may_divide = [&](size_t at) {
        return !before_spaces_only_ || text.substr(at).starts_with(kSpaceSymbol);
    };
    // Goes over the text from `begin`, which no piece that reaches across `least` begins before.
    const auto search = [&](size_t begin, size_t least, size_t limit, bool first) {
        std::optional<size_t> found;
        size_t reach = 0;  // where the pieces that begin before a place end
        for (size_t at = begin; at < limit; at += next_utf8(text.substr(at)).length) {
            if (at >= least && reach <= at && may_divide(at)) {
                found = at;
                if (first) break;
            }
            reach = std::max(reach, at + index_.longest_at(text.substr(at)).length);
        }
        return found;
    };
    size_t begin = from > index_.longest() ? from - index_.longest() : 0;
    while (begin > 0 && begin < text.size() && continues_character(text[begin])) --begin;
    if (const auto found = search(begin, from, end, true)) return found;
    return search(0, 1, std::min(from, end), false);
}

}  // namespace nanolith
