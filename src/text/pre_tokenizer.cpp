#include "text/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/byte_level.h"
#include "text/component.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

constexpr const char* kPreTokenizer = "pre_tokenizer";
// Radford et al. 2019: how GPT-2 cuts words.
constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// Punctuation as the reference knows it, from Unicode 8: without what came later, and with two that are symbols now.
constexpr std::string_view kPunctuationPattern =
    "(?!["
    "\\x{61D}\\x{9FD}\\x{A76}\\x{C77}\\x{C84}\\x{1B7D}-\\x{1B7E}\\x{2E43}-\\x{2E4F}\\x{2E52}-\\x{2E5D}"
    "\\x{10EAD}\\x{10F55}-\\x{10F59}\\x{10F86}-\\x{10F89}\\x{1144B}-\\x{1144F}\\x{1145A}-\\x{1145B}"
    "\\x{1145D}\\x{11660}-\\x{1166C}\\x{116B9}\\x{1183B}\\x{11944}-\\x{11946}\\x{119E2}"
    "\\x{11A3F}-\\x{11A46}\\x{11A9A}-\\x{11A9C}\\x{11A9E}-\\x{11AA2}\\x{11C41}-\\x{11C45}"
    "\\x{11C70}-\\x{11C71}\\x{11EF7}-\\x{11EF8}\\x{11FFF}\\x{12FF1}-\\x{12FF2}\\x{16E97}-\\x{16E9A}"
    "\\x{16FE2}\\x{1E95E}-\\x{1E95F}"
    "])[!-/:-@\\[-`{-~\\p{P}\\x{166D}\\x{111C9}]";

// What becomes of a match and of what is between matches.
enum class Behavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

std::optional<Behavior> behavior_of(const std::string& name) {
    if (name == "Removed") return Behavior::removed;
    if (name == "Isolated") return Behavior::isolated;
    if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
    if (name == "MergedWithNext") return Behavior::merged_with_next;
    if (name == "Contiguous") return Behavior::contiguous;
    return std::nullopt;
}

// Puts the parts of a word together as a behavior says, and gives the result away.
class Joiner {
  public:
    Joiner(Behavior behavior, std::string_view word, bool at_start, WordTaker& next)
        : behavior_(behavior), word_(word), at_start_(at_start), next_(&next) {}

    Result<void> add(size_t begin, bool is_match) {
        const bool joins = begin > 0 && joins_previous(is_match);
        if (!joins) NL_TRY(give(begin));
        was_match_ = is_match;
        keeps_ = !(is_match && behavior_ == Behavior::removed);
        return {};
    }
    Result<void> finish() { return give(word_.size()); }

  private:
    [[nodiscard]] bool joins_previous(bool is_match) const {
        switch (behavior_) {
            case Behavior::merged_with_previous:
                return is_match && !was_match_;
            case Behavior::merged_with_next:
                return !is_match && was_match_;
            case Behavior::contiguous:
                return is_match == was_match_;
            default:
                return false;
        }
    }
    // Ends the word that began at begin_.
    Result<void> give(size_t end) {
        const size_t begin = std::exchange(begin_, end);
        if (end <= begin || !keeps_) return {};
        return next_->take(word_.substr(begin, end - begin), at_start_ && begin == 0);
    }

    Behavior behavior_;
    std::string_view word_;
    bool at_start_;
    WordTaker* next_;
    size_t begin_ = 0;
    bool was_match_ = false;
    bool keeps_ = true;
};

}  // namespace

// One of the components, as it is in the file.
class PreTokenizer::Step {
  public:
    Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    virtual ~Step() = default;
    // Its working space: takes words and gives their parts to `next`. Both must outlive what is made.
    [[nodiscard]] virtual std::unique_ptr<WordTaker> make_cutter(WordTaker& next) const = 0;
};

PreTokenizer::Cutter::Cutter(const PreTokenizer& pre_tokenizer, WordTaker& last) : first_(&last) {
    for (auto step = pre_tokenizer.steps_.rbegin(); step != pre_tokenizer.steps_.rend(); ++step) {
        steps_.push_back((*step)->make_cutter(*first_));
        first_ = steps_.back().get();
    }
}

namespace {

class Splitter final : public WordTaker {
  public:
    Splitter(const Pattern& pattern, Behavior behavior, bool invert, WordTaker& next)
        : finder_(pattern), behavior_(behavior), invert_(invert), next_(&next) {}

    Result<void> take(std::string_view word, bool at_start) override {
        Joiner joiner(behavior_, word, at_start, *next_);
        finder_.start(word);
        size_t done = 0;
        Span match;
        while (true) {
            NL_ASSIGN(const bool found, finder_.next(match));
            if (!found) break;
            if (done < match.begin) NL_TRY(joiner.add(done, invert_));
            NL_TRY(joiner.add(match.begin, !invert_));
            done = match.end;
        }
        if (done < word.size()) NL_TRY(joiner.add(done, invert_));
        return joiner.finish();
    }

  private:
    Pattern::Finder finder_;
    Behavior behavior_;
    bool invert_;
    WordTaker* next_;
};

class SplitStep final : public PreTokenizer::Step {
  public:
    SplitStep(Pattern pattern, Behavior behavior, bool invert)
        : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
    [[nodiscard]] std::unique_ptr<WordTaker> make_cutter(WordTaker& next) const override {
        return std::make_unique<Splitter>(pattern_, behavior_, invert_, next);
    }

  private:
    Pattern pattern_;
    Behavior behavior_;
    bool invert_;
};

// Cuts words into parts of so many characters, of which the last one may have fewer.
class LengthCutter final : public WordTaker {
  public:
    LengthCutter(int64_t length, WordTaker& next) : length_(length), next_(&next) {}
    Result<void> take(std::string_view word, bool at_start) override {
        size_t begin = 0;
        int64_t count = 0;
        for (size_t at = 0; at < word.size();) {
            at += next_utf8(word.substr(at)).length;
            if (++count < length_ && at < word.size()) continue;
            NL_TRY(next_->take(word.substr(begin, at - begin), at_start && begin == 0));
            begin = at;
            count = 0;
        }
        return {};
    }

  private:
    int64_t length_;
    WordTaker* next_;
};

class LengthStep final : public PreTokenizer::Step {
  public:
    explicit LengthStep(int64_t length) : length_(length) {}
    [[nodiscard]] std::unique_ptr<WordTaker> make_cutter(WordTaker& next) const override {
        return std::make_unique<LengthCutter>(length_, next);
    }

  private:
    int64_t length_;
};

// Changes words by a function (std::string_view word, bool at_start, std::string& changed), which appends.
template <typename Change>
class Changer final : public WordTaker {
  public:
    Changer(Change change, WordTaker& next) : change_(std::move(change)), next_(&next) {}
    Result<void> take(std::string_view word, bool at_start) override {
        changed_.clear();
        change_(word, at_start, changed_);
        return next_->take(changed_, at_start);
    }

  private:
    Change change_;
    WordTaker* next_;
    std::string changed_;
};

template <typename Change>
class ChangeStep final : public PreTokenizer::Step {
  public:
    explicit ChangeStep(Change change) : change_(std::move(change)) {}
    [[nodiscard]] std::unique_ptr<WordTaker> make_cutter(WordTaker& next) const override {
        return std::make_unique<Changer<Change>>(change_, next);
    }

  private:
    Change change_;
};

// ByteLevel's add_prefix_space: a space before every word that does not begin with one.
void put_space(std::string_view word, bool /*at_start*/, std::string& changed) {
    if (!word.starts_with(' ')) changed += ' ';
    changed += word;
}

// ByteLevel where other components stand after it: they see the bytes' spelling.
void spell_bytes(std::string_view word, bool /*at_start*/, std::string& changed) {
    append_byte_level(changed, word);
}

enum class PrependWhere : uint8_t { always, first, never };

// Metaspace's symbol in place of spaces, and before a word.
struct PutSymbols {
    std::string symbol;
    PrependWhere prepend;

    void operator()(std::string_view word, bool at_start, std::string& changed) const {
        const auto spaces = static_cast<size_t>(std::count(word.begin(), word.end(), ' '));
        changed.reserve(word.size() + (spaces + 1) * symbol.size());
        const bool prepends = prepend == PrependWhere::always || (prepend == PrependWhere::first && at_start);
        if (prepends && !word.starts_with(' ') && !word.starts_with(symbol)) changed += symbol;
        for (const char c : word) {
            if (c == ' ') {
                changed += symbol;
            } else {
                changed += c;
            }
        }
    }
};

}  // namespace

class PreTokenizerReader {
  public:
    explicit PreTokenizerReader(const std::string& where) : where_(where) {}

    Result<void> read(const Json& json) {
        const JsonFields fields(json, where_, "pre_tokenizer.");
        NL_ASSIGN(const std::string type, read_type(fields, kPreTokenizer));
        if (type == "Sequence") return read_sequence(fields);
        // What stands after ByteLevel sees how bytes are spelled.
        if (std::exchange(made_.byte_level_, false)) add_change(spell_bytes);
        if (type == "ByteLevel") return read_byte_level(fields);
        if (type == "Metaspace") return read_metaspace(fields);
        if (type == "Split") return read_split(fields);
        if (type == "Punctuation") return read_punctuation(fields);
        if (type == "Digits") {
            NL_ASSIGN(const bool single, fields.boolean_or("individual_digits", false));
            return add_split(single ? "\\p{N}" : "\\p{N}+", Behavior::isolated);
        }
        if (type == "WhitespaceSplit") return add_split("\\s", Behavior::removed);
        if (type == "Whitespace") return add_split("\\w+|[^\\w\\s]+", Behavior::removed, PatternSyntax::rust, true);
        if (type == "CharDelimiterSplit") return read_delimiter(fields);
        if (type == "FixedLength") {
            NL_ASSIGN(const int64_t length, fields.integer_or("length", 5, 1, INT32_MAX));
            add<LengthStep>(length);
            return {};
        }
        if (type == "BertPreTokenizer") {
            NL_TRY(add_split("\\s", Behavior::removed));
            return add_split(kPunctuationPattern, Behavior::isolated);
        }
        return unknown_component(where_, kPreTokenizer, type);
    }
    [[nodiscard]] PreTokenizer& made() { return made_; }

  private:
    template <typename T, typename... Arguments>
    void add(Arguments&&... arguments) {
        made_.steps_.push_back(std::make_shared<const T>(std::forward<Arguments>(arguments)...));
    }
    template <typename Change>
    void add_change(Change change) {
        add<ChangeStep<Change>>(std::move(change));
    }
    Result<void> add_split(std::string_view regex, Behavior behavior, PatternSyntax syntax = PatternSyntax::oniguruma,
                           bool invert = false) {
        NL_ASSIGN(Pattern pattern, Pattern::regex(regex, where_, syntax));
        add<SplitStep>(std::move(pattern), behavior, invert);
        return {};
    }

    Result<void> read_sequence(const JsonFields& fields) {
        NL_ASSIGN(const auto* const list, read_list(fields, "pretokenizers"));
        for (const Json& json : *list) NL_TRY(read(json));
        return {};
    }

    Result<void> read_byte_level(const JsonFields& fields) {
        NL_ASSIGN(const bool space, fields.boolean_or("add_prefix_space", true));
        NL_ASSIGN(const bool regex, fields.boolean_or("use_regex", true));
        if (space) add_change(put_space);
        if (regex) NL_TRY(add_split(kGpt2Pattern, Behavior::isolated));
        made_.byte_level_ = true;
        return {};
    }

    Result<void> read_metaspace(const JsonFields& fields) {
        NL_ASSIGN(const std::string symbol, fields.string_or("replacement", "\xE2\x96\x81"));
        if (symbol.empty()) return fields.wrong("replacement", "a character");
        // Older files say it with this flag alone.
        NL_ASSIGN(const bool space, fields.boolean_or("add_prefix_space", true));
        NL_ASSIGN(const std::string scheme, fields.string_or("prepend_scheme", space ? "always" : "never"));
        NL_ASSIGN(const bool split, fields.boolean_or("split", true));
        if (scheme != "always" && scheme != "first" && scheme != "never")
            return fields.wrong("prepend_scheme", "\"always\", \"first\" or \"never\"", NL_ERROR_UNSUPPORTED);
        add_change(PutSymbols{symbol, scheme == "always"  ? PrependWhere::always
                                      : scheme == "first" ? PrependWhere::first
                                                          : PrependWhere::never});
        if (split) add<SplitStep>(Pattern::literal(symbol), Behavior::merged_with_next, false);
        return {};
    }

    Result<Behavior> read_behavior(const JsonFields& fields, const char* fallback) {
        NL_ASSIGN(const std::string name, fields.string_or("behavior", fallback));
        const auto behavior = behavior_of(name);
        if (!behavior) return fields.wrong("behavior", "one that is known", NL_ERROR_UNSUPPORTED);
        return *behavior;
    }

    Result<void> read_split(const JsonFields& fields) {
        NL_ASSIGN(Pattern pattern, read_pattern(fields, where_));
        NL_ASSIGN(const Behavior behavior, read_behavior(fields, ""));
        NL_ASSIGN(const bool invert, fields.boolean_or("invert", false));
        add<SplitStep>(std::move(pattern), behavior, invert);
        return {};
    }

    Result<void> read_delimiter(const JsonFields& fields) {
        NL_ASSIGN(const std::string delimiter, read_string(fields, "delimiter"));
        if (count_characters(delimiter) != 1) return fields.wrong("delimiter", "one character");
        add<SplitStep>(Pattern::literal(delimiter), Behavior::removed, false);
        return {};
    }

    Result<void> read_punctuation(const JsonFields& fields) {
        NL_ASSIGN(const Behavior behavior, read_behavior(fields, "Isolated"));
        return add_split(kPunctuationPattern, behavior);
    }

    std::string where_;
    PreTokenizer made_;
};

Result<PreTokenizer> PreTokenizer::read(const Json* json, const std::string& where) {
    PreTokenizerReader reader(where);
    if (json != nullptr && !json->is_null()) NL_TRY(reader.read(*json));
    return std::move(reader.made());
}

PreTokenizer PreTokenizer::matches_of(Pattern pattern) {
    PreTokenizer made;
    made.steps_.push_back(std::make_shared<const SplitStep>(std::move(pattern), Behavior::removed, true));
    made.byte_level_ = true;
    return made;
}

void PreTokenizer::spell_words() {
    if (!std::exchange(byte_level_, false)) return;
    using Spell = ChangeStep<decltype(&spell_bytes)>;
    steps_.push_back(std::make_shared<const Spell>(&spell_bytes));
}

}  // namespace nanolith
