// The "pre_tokenizer" of a tokenizer.json: it cuts a normalised text into words, inside of which alone tokens merge.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/pattern.h"

namespace nanolith {

// Takes words, one after the other. None is empty; each is there during the call only.
class WordTaker {
  public:
    WordTaker() = default;
    WordTaker(const WordTaker&) = delete;
    WordTaker& operator=(const WordTaker&) = delete;
    virtual ~WordTaker() = default;
    // `at_start`: the word is the beginning of the whole text.
    [[nodiscard]] virtual Result<void> take(std::string_view word, bool at_start) = 0;
};

// Immutable, so it may be used from any thread.
class PreTokenizer {
  public:
    // Reads one; null is none. Known are BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength,
    // Metaspace, Punctuation, Sequence, Split, Whitespace and WhitespaceSplit; others are UNSUPPORTED by their name.
    // `where` begins a message.
    static Result<PreTokenizer> read(const Json* json, const std::string& where);

    // Takes what `pattern` matches for words and leaves out the rest; words are raw bytes.
    static PreTokenizer matches_of(Pattern pattern);

    // Whether words are raw bytes for a byte-level vocabulary.
    [[nodiscard]] bool byte_level() const { return byte_level_; }
    // Has words spelled as byte_level.h says where they would be raw bytes: for models that know nothing of bytes.
    void spell_words();

    class Step;
    class Cutter;

  private:
    std::vector<std::shared_ptr<const Step>> steps_;
    bool byte_level_ = false;

    friend class PreTokenizerReader;
};

// Cuts words further, with the working space of all steps. For one thread. A word goes through all steps before the
// next one does, so that the words of a long text are never there together.
class PreTokenizer::Cutter {
  public:
    // Words go to `last`. Both must outlive this.
    Cutter(const PreTokenizer& pre_tokenizer, WordTaker& last);
    [[nodiscard]] Result<void> cut(std::string_view word, bool at_start) {
        return word.empty() ? Result<void>{} : first_->take(word, at_start);
    }

  private:
    std::vector<std::unique_ptr<WordTaker>> steps_;  // the last one first
    WordTaker* first_;
};

}  // namespace nanolith
