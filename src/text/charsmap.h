// The normalisation table of a SentencePiece model ("precompiled_charsmap"), checked before libsentencepiece reads
// it without bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nanolith {

// What is wrong with `charsmap`, or an empty string when no text can lead a reader outside of it.
// Layout: a uint32 of the trie's bytes; the trie, a double array (Aoe, 1989) of uint32 units as darts-clone writes
// them; strings that end with a zero byte, which the trie's values point into.
std::string check_charsmap(std::string_view charsmap);

// The replacements of such a table. Immutable, so it may be used from any thread.
class Charsmap {
  public:
    Charsmap() = default;  // replaces nothing
    // `table` passed check_charsmap.
    explicit Charsmap(std::string_view table);

    struct Match {
        size_t length = 0;      // bytes that are replaced; 0: nothing is found
        std::string_view text;  // by this
    };
    // The longest, or the shortest, of the table's strings that `text` begins with.
    [[nodiscard]] Match longest_at(std::string_view text) const { return find(text, false); }
    [[nodiscard]] Match shortest_at(std::string_view text) const { return find(text, true); }

  private:
    [[nodiscard]] Match find(std::string_view text, bool shortest) const;

    std::vector<uint32_t> units_;
    std::string strings_;
};

}  // namespace nanolith
