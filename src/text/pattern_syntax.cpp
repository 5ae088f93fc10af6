#include "text/pattern_syntax.h"

#include <algorithm>
#include <array>
#include <vector>

#include "files/json.h"

namespace nanolith {
namespace {

constexpr std::array<std::string_view, 37> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn"};
constexpr std::array<std::string_view, 17> kScripts = {
    "Arabic", "Armenian", "Bengali",  "Cyrillic", "Devanagari", "Georgian", "Greek", "Han", "Hangul",
    "Hebrew", "Hiragana", "Katakana", "Khmer",    "Lao",        "Latin",    "Tamil", "Thai"};
constexpr std::array<std::string_view, 3> kProperties = {"Alphabetic", "White_Space", "Any"};

template <size_t N>
bool has(const std::array<std::string_view, N>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_hex(std::string_view digits) {
    return !digits.empty() && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// What \w is.
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// And beside that to Oniguruma, but not inside a class, the numbers of latin-1 that are no digits; to Rust, the
// joiners.
constexpr std::string_view kOnigurumaWord = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kRustWord = "\\x{200C}\\x{200D}";

class Translator {
  public:
    Translator(std::string_view pattern, PatternSyntax syntax)
        : rest_(pattern), is_rust_(syntax == PatternSyntax::rust) {}

    // False where `problem` says what is not known.
    bool run() {
        while (!rest_.empty() && problem_.empty()) {
            const char first = rest_[0];
            if (std::string_view("?*+{").find(first) != std::string_view::npos) {
                quantifier();
            } else if (first == '(') {
                group();
            } else if (first == ')') {
                end_group();
            } else if (first == '|' || first == '^' || first == '$') {
                between();
            } else {
                repeated_ = translated_.size();
                element(first);
            }
        }
        return problem_.empty();
    }
    [[nodiscard]] const std::string& problem() const { return problem_; }
    [[nodiscard]] std::string& translated() { return translated_; }

  private:
    void copy(size_t length) {
        translated_ += rest_.substr(0, length);
        rest_.remove_prefix(length);
    }
    void put(std::string_view text, size_t length) {
        translated_ += text;
        rest_.remove_prefix(length);
    }
    void refuse(std::string_view what) { problem_ = what; }
    [[nodiscard]] std::string word() const {
        return std::string(kWord).append(is_rust_ ? kRustWord : in_class_ ? std::string_view() : kOnigurumaWord);
    }

    void element(char first) {
        if (first == '\\') {
            escape();
        } else if (first == '[') {
            character_class();
        } else {
            size_t length = 1;
            while (length < rest_.size() && (static_cast<uint8_t>(rest_[length]) & 0xC0U) == 0x80) ++length;
            copy(length);
        }
    }

    // What stands between elements. To Rust's `^` and `$` a text's lines are nothing.
    void between() {
        repeated_ = kNothing;
        if (is_rust_ && rest_[0] != '|') return put(rest_[0] == '^' ? "\\A" : "\\z", 1);
        copy(1);
    }

    void group() {
        const size_t begin = translated_.size();
        repeated_ = kNothing;
        for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!"}) {
            if (!rest_.starts_with(opening)) continue;
            groups_.push_back(opening.ends_with(':') ? begin : kNothing);
            return copy(opening.size());
        }
        if (rest_.starts_with("(?") || rest_.starts_with("(*")) return refuse(rest_.substr(0, 4));
        groups_.push_back(begin);
        copy(1);
    }

    void end_group() {
        repeated_ = groups_.empty() ? kNothing : groups_.back();
        if (!groups_.empty()) groups_.pop_back();
        copy(1);
    }

    void quantifier() {
        size_t length = 1;
        const bool braces = rest_[0] == '{';
        if (braces) {
            while (length < rest_.size() && (is_digit(rest_[length]) || rest_[length] == ',')) ++length;
            const std::string_view counts = rest_.substr(1, length - 1);
            const bool known = length < rest_.size() && rest_[length] == '}' && !counts.empty() &&
                               is_digit(counts[0]) && std::count(counts.begin(), counts.end(), ',') <= 1;
            if (!known) return refuse("a brace that is no quantifier");
            ++length;
        }
        bool repeats_again = false;
        if (length < rest_.size() && (rest_[length] == '?' || rest_[length] == '+')) {
            // After braces Oniguruma takes these for a second quantifier.
            repeats_again = braces && !is_rust_;
            if (repeats_again && (rest_[length] == '?' || repeated_ == kNothing))
                return refuse("a quantifier after a quantifier in braces");
            ++length;
        }
        if (length < rest_.size() && std::string_view("?*+{").find(rest_[length]) != std::string_view::npos)
            return refuse("a quantifier after a quantifier");
        if (repeats_again) translated_.insert(repeated_, "(?:").append(rest_.substr(0, length - 1)).append(")+");
        if (repeats_again) return rest_.remove_prefix(length);
        copy(length);
    }

    void character_class() {
        in_class_ = true;
        copy(rest_.starts_with("[^") ? 2 : 1);
        if (rest_.starts_with(']')) return refuse("a class that begins with ]");
        while (!rest_.empty() && rest_[0] != ']' && problem_.empty()) {
            if (rest_[0] == '\\') {
                escape();
            } else if (rest_[0] == '[') {
                return refuse("a class in a class");
            } else if (rest_.starts_with("&&")) {
                return refuse("&& in a class");
            } else if (is_rust_ && (rest_.starts_with("--") || rest_.starts_with("~~"))) {
                return refuse("an operator in a class");
            } else {
                copy(1);
            }
        }
        if (rest_.empty()) return refuse("a class without an end");
        in_class_ = false;
        copy(1);
    }

    void escape() {
        if (rest_.size() < 2) return refuse("a backslash at the end");
        const char c = rest_[1];
        switch (c) {
            case 's':
                return put("\\p{White_Space}", 2);
            case 'S':
                return put("\\P{White_Space}", 2);
            case 'd':
                return put("\\p{Nd}", 2);
            case 'D':
                return put("\\P{Nd}", 2);
            case 'w':
                return put(in_class_ ? word() : "[" + word() + "]", 2);
            case 'W':
                if (in_class_) return refuse("\\W in a class");
                return put("[^" + word() + "]", 2);
            case 'v':  // PCRE2's own \v is any vertical space
                return put("\\x0B", 2);
            case 'r':
            case 'n':
            case 't':
            case 'f':
                return copy(2);
            case 'p':
            case 'P':
                return property();
            case 'x':
            case 'u':
                return code_point();
            default:
                break;
        }
        const bool punctuation = c > ' ' && c < 0x7F && !is_digit(c) && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!punctuation && c != ' ') return refuse(rest_.substr(0, 2));
        copy(2);
    }

    void code_point() {
        std::string_view digits;
        size_t length = 0;
        if (rest_.starts_with("\\x{")) {
            length = rest_.find('}');
            if (length == std::string_view::npos) return refuse("\\x{ without an end");
            digits = rest_.substr(3, length - 3);
            ++length;
        } else {
            const size_t count = rest_[1] == 'x' ? 2 : 4;
            digits = rest_.substr(2, count);
            length = 2 + count;
            // Oniguruma's \xHH is a byte, not a character.
            if (digits.size() != count || (count == 2 && digits[0] > '7')) return refuse(rest_.substr(0, 4));
        }
        if (!is_hex(digits) || digits.size() > 6) return refuse(rest_.substr(0, 4));
        put("\\x{" + std::string(digits) + "}", length);
    }

    void property() {
        const size_t end = rest_.find('}');
        if (rest_.size() < 4 || rest_[2] != '{' || end == std::string_view::npos) return refuse(rest_.substr(0, 3));
        std::string_view name = rest_.substr(3, end - 3);
        bool negated = rest_[1] == 'P';
        if (name.starts_with('^') && !is_rust_) {
            negated = !negated;
            name.remove_prefix(1);
        }
        std::string text = negated ? "\\P{" : "\\p{";
        if (has(kScripts, name)) {
            text += "sc:";  // a script's bare name is its script extensions to PCRE2
        } else if (!has(kCategories, name) && !has(kProperties, name)) {
            return refuse("the property " + std::string(name.substr(0, 40)));
        }
        put(text + std::string(name) + "}", end + 1);
    }

    static constexpr size_t kNothing = std::string::npos;

    std::string_view rest_;
    bool is_rust_;
    std::string translated_;
    std::string problem_;
    bool in_class_ = false;
    size_t repeated_ = kNothing;  // where in translated_ that begins which a quantifier here repeats
    std::vector<size_t> groups_;  // the same for each open group, kNothing for what looks around
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern, const std::string& where, PatternSyntax syntax) {
    // Longer than any that a tokenizer needs; compiling takes time that grows with it.
    constexpr size_t kMaxLength = 8192;
    if (pattern.size() > kMaxLength)
        return fail(NL_ERROR_UNSUPPORTED, where, ": a pattern of ", pattern.size(), " bytes: expected at most ",
                    kMaxLength);
    Translator translator(pattern, syntax);
    if (!translator.run())
        return fail(NL_ERROR_UNSUPPORTED, where, ": the pattern ", show_json(pattern), " has ",
                    show_json(translator.problem()), ", which is not supported");
    return std::move(translator.translated());
}

}  // namespace nanolith
