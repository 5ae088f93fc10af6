#include "text/pre_tokenizer.h"

#include <optional>
#include <utility>

#include "text/component.h"

namespace nanolith {
namespace {

constexpr const char* kWhat = "pre_tokenizer";
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

// Puts the parts of a word together as a behavior says, and the result into a list.
class Cutter {
  public:
    Cutter(Behavior behavior, std::string_view word, std::vector<std::string_view>& list)
        : behavior_(behavior), word_(word), list_(&list) {}

    void add(size_t begin, bool is_match) {
        const bool joins = begin > 0 && joins_previous(is_match);
        if (!joins) give(begin);
        was_match_ = is_match;
        keeps_ = !(is_match && behavior_ == Behavior::removed);
    }
    void finish() { give(word_.size()); }

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
    void give(size_t end) {
        if (end > begin_ && keeps_) list_->push_back(word_.substr(begin_, end - begin_));
        begin_ = end;
    }

    Behavior behavior_;
    std::string_view word_;
    std::vector<std::string_view>* list_;
    size_t begin_ = 0;
    bool was_match_ = false;
    bool keeps_ = true;
};

void cut(std::string_view word, const std::vector<Span>& matches, Behavior behavior, bool invert,
         std::vector<std::string_view>& list) {
    Cutter cutter(behavior, word, list);
    size_t done = 0;
    for (const Span& match : matches) {
        if (done < match.begin) cutter.add(done, invert);
        cutter.add(match.begin, !invert);
        done = match.end;
    }
    if (done < word.size()) cutter.add(done, invert);
    cutter.finish();
}

}  // namespace

class PreTokenizer::Step {
  public:
    virtual ~Step() = default;
    [[nodiscard]] virtual Result<void> apply(Words& words) const = 0;
};

namespace {

class SplitStep final : public PreTokenizer::Step {
  public:
    SplitStep(Pattern pattern, Behavior behavior, bool invert)
        : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

    Result<void> apply(Words& words) const override {
        words.next_list.clear();
        for (const std::string_view word : words.list) {
            NL_TRY(pattern_.find_all(word, words.matches));
            cut(word, words.matches, behavior_, invert_, words.next_list);
        }
        words.list.swap(words.next_list);
        return {};
    }

  private:
    Pattern pattern_;
    Behavior behavior_;
    bool invert_;
};

// ByteLevel's add_prefix_space: a space before every word that does not begin with one.
class SpaceStep final : public PreTokenizer::Step {
  public:
    Result<void> apply(Words& words) const override {
        for (std::string_view& word : words.list) {
            if (!word.starts_with(' ')) word = words.changed.emplace_back(std::string(" ").append(word));
        }
        return {};
    }
};

enum class Prepend : uint8_t { always, first, never };

class MetaspaceStep final : public PreTokenizer::Step {
  public:
    MetaspaceStep(std::string symbol, Prepend prepend, bool split)
        : symbol_(std::move(symbol)), prepend_(prepend), split_(split) {}

    Result<void> apply(Words& words) const override {
        words.next_list.clear();
        for (size_t i = 0; i < words.list.size(); ++i) {
            const bool first = words.list[i].data() == words.start;
            const std::string_view word =
                words.changed.emplace_back(replace(words.list[i], prepend_ == Prepend::always || first));
            if (split_) {
                cut_at_symbols(word, words);
            } else {
                words.next_list.push_back(word);
            }
        }
        words.list.swap(words.next_list);
        return {};
    }

  private:
    [[nodiscard]] std::string replace(std::string_view word, bool may_prepend) const {
        std::string text;
        text.reserve(word.size() + word.size() / 2 + symbol_.size());
        const bool prepends = may_prepend && prepend_ != Prepend::never;
        if (prepends && !word.starts_with(' ') && !word.starts_with(symbol_)) text += symbol_;
        for (const char c : word) {
            if (c == ' ') {
                text += symbol_;
            } else {
                text += c;
            }
        }
        return text;
    }
    void cut_at_symbols(std::string_view word, Words& words) const {
        words.matches.clear();
        for (size_t at = word.find(symbol_); at != std::string_view::npos; at = word.find(symbol_, at + symbol_.size()))
            words.matches.push_back({at, at + symbol_.size()});
        cut(word, words.matches, Behavior::merged_with_next, false, words.next_list);
    }

    std::string symbol_;
    Prepend prepend_;
    bool split_;
};

}  // namespace

class PreTokenizerReader {
  public:
    explicit PreTokenizerReader(const std::string& where) : where_(where) {}

    Result<void> read(const Json& json) {
        const JsonFields fields(json, where_, "pre_tokenizer.");
        NL_ASSIGN(const std::string type, read_type(fields, kWhat));
        if (made_.byte_level_)
            return fail(NL_ERROR_UNSUPPORTED, where_, ": the pre_tokenizer ", show_json(type),
                        " stands behind \"ByteLevel\", which is supported as the last one only");
        if (type == "Sequence") return read_sequence(fields);
        if (type == "ByteLevel") return read_byte_level(fields);
        if (type == "Metaspace") return read_metaspace(fields);
        if (type == "Split") return read_split(fields);
        if (type == "Punctuation") return read_punctuation(fields);
        if (type == "Digits") {
            NL_ASSIGN(const bool single, fields.boolean_or("individual_digits", false));
            return add_split(single ? "\\p{N}" : "\\p{N}+", Behavior::isolated);
        }
        if (type == "WhitespaceSplit") return add_split("\\s", Behavior::removed);
        return unknown_component(where_, kWhat, type);
    }
    [[nodiscard]] PreTokenizer& made() { return made_; }

  private:
    template <typename T, typename... Arguments>
    void add(Arguments&&... arguments) {
        made_.steps_.push_back(std::make_shared<const T>(std::forward<Arguments>(arguments)...));
    }
    Result<void> add_split(std::string_view regex, Behavior behavior) {
        NL_ASSIGN(Pattern pattern, Pattern::regex(regex, where_));
        add<SplitStep>(std::move(pattern), behavior, false);
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
        if (space) add<SpaceStep>();
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
        add<MetaspaceStep>(symbol,
                           scheme == "always"  ? Prepend::always
                           : scheme == "first" ? Prepend::first
                                               : Prepend::never,
                           split);
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

Result<void> PreTokenizer::apply(Words& words) const {
    for (const auto& step : steps_) NL_TRY(step->apply(words));
    return {};
}

}  // namespace nanolith
