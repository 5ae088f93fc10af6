#include "text/charsmap.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace nanolith {
namespace {

// libsentencepiece keeps the matches of a prefix search in an array of this many.
constexpr int kMaxMatches = 32;

// A unit of the double array: the byte that leads to it, whether a match ends at it, and the offset of its children.
struct Unit {
    uint32_t bits;

    [[nodiscard]] uint32_t label() const { return bits & (0x80000000U | 0xFFU); }
    [[nodiscard]] bool has_match() const { return ((bits >> 8U) & 1U) != 0; }
    [[nodiscard]] uint32_t offset() const { return (bits >> 10U) << ((bits & (1U << 9U)) >> 6U); }
    [[nodiscard]] uint32_t value() const { return bits & 0x7FFFFFFFU; }
};

class CharsmapChecker {
  public:
    CharsmapChecker(std::vector<Unit> units, std::string_view strings) : units_(std::move(units)), strings_(strings) {}

    // Visits every unit that a search can reach from the root, along all paths, and counts the matches on the way. A
    // unit is visited again only when a path with more matches leads to it, which bounds the work.
    std::string run() {
        most_matches_.assign(units_.size(), -1);
        visit(0, 0);
        while (!waiting_.empty() && problem_.empty()) {
            const auto [unit, matches] = waiting_.back();
            waiting_.pop_back();
            if (matches == most_matches_[unit]) expand(unit, matches);
        }
        return problem_;
    }

  private:
    void visit(uint32_t unit, int matches) {
        if (matches <= most_matches_[unit]) return;
        most_matches_[unit] = matches;
        waiting_.emplace_back(unit, matches);
    }

    void expand(uint32_t unit, int matches) {
        const uint32_t children = unit ^ units_[unit].offset();
        if ((children | 0xFFU) >= units_.size()) {
            problem_ = "its trie leads outside of itself";
            return;
        }
        if (unit != 0 && units_[unit].has_match()) {
            if (++matches > kMaxMatches) problem_ = "its trie has too many matches on one path";
            check_value(units_[children].value());
        }
        for (uint32_t byte = 0; byte < 256; ++byte) {
            if (units_[children ^ byte].label() == byte) visit(children ^ byte, matches);
        }
    }

    void check_value(uint32_t value) {
        if (value >= strings_.size()) {
            problem_ = "its trie points outside of its strings";
        } else if ((static_cast<uint8_t>(strings_[value]) & 0xC0U) == 0x80U) {
            problem_ = "its trie points inside a character";
        }
    }

    std::vector<Unit> units_;
    std::string_view strings_;
    std::vector<int> most_matches_;
    std::vector<std::pair<uint32_t, int>> waiting_;
    std::string problem_;
};

}  // namespace

std::string check_charsmap(std::string_view charsmap) {
    if (charsmap.empty()) return {};
    uint32_t trie_bytes = 0;
    if (charsmap.size() <= sizeof trie_bytes) return "it is too short";
    std::memcpy(&trie_bytes, charsmap.data(), sizeof trie_bytes);
    charsmap.remove_prefix(sizeof trie_bytes);
    if (trie_bytes >= charsmap.size()) return "its trie is longer than the table";
    if (trie_bytes == 0 || trie_bytes % sizeof(Unit) != 0) return "its trie is not a number of 4-byte units";
    const std::string_view strings = charsmap.substr(trie_bytes);
    if (strings.back() != '\0') return "its last string has no end";
    if (!is_valid_utf8(strings)) return "its strings are not UTF-8";
    std::vector<Unit> units(trie_bytes / sizeof(Unit));
    std::memcpy(units.data(), charsmap.data(), trie_bytes);
    return CharsmapChecker(std::move(units), strings).run();
}

Charsmap::Charsmap(std::string_view table) {
    if (table.empty()) return;
    uint32_t trie_bytes = 0;
    std::memcpy(&trie_bytes, table.data(), sizeof trie_bytes);
    table.remove_prefix(sizeof trie_bytes);
    units_.resize(trie_bytes / sizeof(uint32_t));
    std::memcpy(units_.data(), table.data(), trie_bytes);
    strings_ = table.substr(trie_bytes);
}

Charsmap::Match Charsmap::find(std::string_view text, bool shortest) const {
    Match found;
    if (units_.empty()) return found;
    uint32_t at = Unit{units_[0]}.offset();
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        at ^= byte;
        const Unit unit{units_[at]};
        if (unit.label() != byte) break;
        at ^= unit.offset();
        if (!unit.has_match()) continue;
        found = {i + 1, std::string_view(strings_.c_str() + Unit{units_[at]}.value())};
        if (shortest) break;
    }
    return found;
}

}  // namespace nanolith
