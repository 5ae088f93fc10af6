// The "pre_tokenizer" of a tokenizer.json: it cuts a normalised text into words, inside of which alone tokens merge.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/pattern.h"

namespace nanolith {

// Words on their way through the steps. They are views of the text, or of `changed` where a step changes text.
struct Words {
    std::vector<std::string_view> list;
    const char* start = nullptr;  // where the whole text begins; null where that is not in these words
    std::deque<std::string> changed;
    std::vector<Span> matches;                // working space of steps that look for a pattern
    std::vector<std::string_view> next_list;  // and where they put what they cut
};

class PreTokenizer {
  public:
    // Reads one; null is none. Known are ByteLevel (last), Digits, Metaspace, Punctuation, Sequence, Split and
    // WhitespaceSplit; others are UNSUPPORTED by their name. `where` begins a message.
    static Result<PreTokenizer> read(const Json* json, const std::string& where);

    // Cuts the words in `words.list` further. None in the result is empty.
    [[nodiscard]] Result<void> apply(Words& words) const;

    // Whether words are raw bytes for a byte-level vocabulary.
    [[nodiscard]] bool byte_level() const { return byte_level_; }

    class Step;

  private:
    std::vector<std::shared_ptr<const Step>> steps_;
    bool byte_level_ = false;

    friend class PreTokenizerReader;
};

}  // namespace nanolith
