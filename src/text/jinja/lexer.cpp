#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "files/json.h"
#include "text/jinja/text.h"
#include "text/unicode.h"

namespace nanolith::jinja {
namespace {

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Jinja reads "\r\n" and "\r" as "\n", and drops the last line break.
std::string normalize_lines(std::string_view source) {
    std::string text;
    for (size_t i = 0; i < source.size(); ++i) {
        const bool carriage = source[i] == '\r';
        if (carriage && i + 1 < source.size() && source[i + 1] == '\n') continue;
        text += carriage ? '\n' : source[i];
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

class Lexer {
  public:
    explicit Lexer(std::string source) : source_(std::move(source)) {}

    Result<std::vector<Token>> read() {
        while (at_ < source_.size()) {
            NL_TRY(read_data());
            if (at_ < source_.size()) NL_TRY(read_tag());
        }
        add(TokenKind::end, {});
        return std::move(tokens_);
    }

  private:
    [[nodiscard]] bool has(std::string_view what) const {
        return std::string_view(source_).substr(at_).starts_with(what);
    }
    [[nodiscard]] std::string_view rest() const { return std::string_view(source_).substr(at_); }
    void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
    void advance(size_t count) {
        line_ += static_cast<size_t>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                                source_.begin() + static_cast<ptrdiff_t>(at_ + count), '\n'));
        at_ += count;
    }
    template <typename... Parts>
    Error wrong(const Parts&... parts) const {
        return fail(NL_ERROR_UNSUPPORTED, "line ", line_, ": ", parts...);
    }

    // Text up to the next tag, without the white space that the tag takes.
    Result<void> read_data() {
        const size_t begin = at_;
        size_t end = source_.size();
        for (size_t i = at_; i + 1 < source_.size(); ++i) {
            if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
                end = i;
                break;
            }
        }
        std::string_view text = std::string_view(source_).substr(begin, end - begin);
        if (end < source_.size()) text = strip_before_tag(text, end);
        if (!text.empty()) add(TokenKind::data, std::string(text));
        advance(end - at_);
        return {};
    }

    [[nodiscard]] std::string_view strip_before_tag(std::string_view text, size_t tag) const {
        const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
        if (sign == '-') return text.substr(0, strip_range(text, nullptr, false, true).end);
        if (sign == '+' || source_[tag + 1] == '{') return text;
        // A tag alone on its line takes the white space before it. Where the text has no line break, its beginning must
        // be that of a line.
        const size_t line = text.rfind('\n') + 1;
        if (line == 0 && !(tag == text.size() || source_[tag - text.size() - 1] == '\n')) return text;
        const std::string_view indent = text.substr(line);
        const bool blank = strip_range(indent, nullptr, true, false).begin == indent.size();
        return blank && !indent.empty() ? text.substr(0, line) : text;
    }

    Result<void> read_tag() {
        const char kind = source_[at_ + 1];
        if (kind == '#') return read_comment();
        if (kind == '%' && is_raw()) return read_raw();
        add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, {});
        advance(2);
        if (has("-") || has("+")) advance(1);
        return read_expression(kind == '{' ? "}}" : "%}");
    }

    // After a tag's end: "-" takes all white space, and a block the line break after it.
    void skip_behind_tag(bool strips, bool trims) {
        if (strips) {
            advance(strip_range(rest(), nullptr, true, false).begin);
        } else if (trims && has("\n")) {
            advance(1);
        }
    }

    Result<void> read_comment() {
        const size_t end = source_.find("#}", at_ + 2);
        if (end == std::string::npos) return wrong("a comment does not end");
        const bool strips = source_[end - 1] == '-' && end - 1 >= at_ + 2;
        const bool keeps = source_[end - 1] == '+' && end - 1 >= at_ + 2;
        advance(end + 2 - at_);
        skip_behind_tag(strips, !keeps);
        return {};
    }

    // Whether a tag begins here that is `{% word %}`; then `length` is its length up to before a "-" at its end.
    bool is_word_tag(size_t at, std::string_view word, size_t& length) const {
        const std::string_view text = std::string_view(source_).substr(at);
        if (!text.starts_with("{%")) return false;
        size_t i = 2;
        if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
        while (i < text.size() && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t')) ++i;
        if (!text.substr(i).starts_with(word)) return false;
        i += word.size();
        while (i < text.size() && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t')) ++i;
        length = i;
        const std::string_view end = text.substr(i);
        return end.starts_with("%}") || end.starts_with("-%}") || end.starts_with("+%}");
    }
    [[nodiscard]] bool is_raw() const {
        size_t length = 0;
        return is_word_tag(at_, "raw", length);
    }

    Result<void> read_raw() {
        size_t length = 0;
        is_word_tag(at_, "raw", length);
        advance(length);
        const bool strips = has("-");
        advance(strips || has("+") ? 3 : 2);
        skip_behind_tag(strips, false);
        for (size_t end = source_.find("{%", at_); end != std::string::npos; end = source_.find("{%", end + 2)) {
            if (!is_word_tag(end, "endraw", length)) continue;
            const std::string_view text = std::string_view(source_).substr(at_, end - at_);
            const std::string_view stripped = strip_before_tag(text, end);
            if (!stripped.empty()) add(TokenKind::data, std::string(stripped));
            advance(end + length - at_);
            const bool ends_stripping = has("-");
            const bool keeps = has("+");
            advance(ends_stripping || keeps ? 3 : 2);
            skip_behind_tag(ends_stripping, !keeps);
            return {};
        }
        return wrong("{% raw %} does not end");
    }

    // The words of a tag, up to `closing` outside of all brackets.
    Result<void> read_expression(std::string_view closing) {
        std::string brackets;
        while (at_ < source_.size()) {
            const bool is_block = closing == "%}";
            if (brackets.empty() &&
                (has(closing) || has("-" + std::string(closing)) || (is_block && has("+" + std::string(closing))))) {
                const bool strips = has("-");
                const bool keeps = has("+");
                add(is_block ? TokenKind::block_end : TokenKind::variable_end, {});
                advance(closing.size() + (strips || keeps ? 1 : 0));
                skip_behind_tag(strips, is_block && !keeps);
                return {};
            }
            NL_TRY(read_word(brackets));
        }
        return wrong("a tag does not end: expected ", closing);
    }

    Result<void> read_word(std::string& brackets) {
        const char c = source_[at_];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f') {
            advance(1);
            return {};
        }
        if (c == '\'' || c == '"') return read_string(c);
        if (is_digit(c)) return read_number();
        if (is_name_start(c)) {
            size_t length = 1;
            while (at_ + length < source_.size() &&
                   (is_name_start(source_[at_ + length]) || is_digit(source_[at_ + length])))
                ++length;
            add(TokenKind::name, source_.substr(at_, length));
            advance(length);
            return {};
        }
        return read_operator(brackets);
    }

    Result<void> read_operator(std::string& brackets) {
        static constexpr std::array<std::string_view, 25> kOperators = {
            "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
        const auto* const found = std::find_if(kOperators.begin(), kOperators.end(), [this](auto o) { return has(o); });
        if (found == kOperators.end()) {
            size_t length = 0;
            first_character(rest(), length);
            return wrong("the character ", show_json(rest().substr(0, length)), " in a tag: expected none such");
        }
        const char c = found->front();
        if (c == '(' || c == '[' || c == '{') brackets += c;
        if (c == ')' || c == ']' || c == '}') {
            const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
            if (brackets.empty() || brackets.back() != opening)
                return wrong("\"", c, "\" in a tag, which closes no bracket");
            brackets.pop_back();
        }
        add(TokenKind::punctuation, std::string(*found));
        advance(found->size());
        return {};
    }

    Result<void> read_number() {
        size_t length = 0;
        bool is_real = false;
        const auto digits = [&] {
            while (at_ + length < source_.size() && (is_digit(source_[at_ + length]) || source_[at_ + length] == '_'))
                ++length;
        };
        const auto at = [&](size_t ahead) {
            return at_ + length + ahead < source_.size() ? source_[at_ + length + ahead] : '\0';
        };
        digits();
        if (at(0) == '.' && is_digit(at(1))) {
            is_real = true;
            ++length;
            digits();
        }
        const bool is_signed = at(1) == '+' || at(1) == '-';
        if ((at(0) == 'e' || at(0) == 'E') && is_digit(at(is_signed ? 2 : 1))) {
            is_real = true;
            length += is_signed ? 2 : 1;
            digits();
        }
        std::string text = source_.substr(at_, length);
        text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
        add(is_real ? TokenKind::real : TokenKind::integer, std::move(text));
        advance(length);
        return {};
    }

    Result<void> read_string(char quote) {
        size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) return wrong("a string does not end");
        NL_ASSIGN(std::string text, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
        add(TokenKind::string, std::move(text));
        advance(end + 1 - at_);
        return {};
    }

    // Python's escapes in a literal. What is none stays as it is.
    Result<std::string> unescape(std::string_view literal) const {
        std::string text;
        while (!literal.empty()) {
            if (literal[0] != '\\' || literal.size() < 2) {
                text += literal[0];
                literal.remove_prefix(1);
                continue;
            }
            const char c = literal[1];
            static constexpr std::string_view kFrom = "nrtabfv\\'\"";
            static constexpr std::string_view kTo = "\n\r\t\a\b\f\v\\'\"";
            if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
                text += kTo[simple];
                literal.remove_prefix(2);
            } else if (c == '\n') {
                literal.remove_prefix(2);
            } else if (c == 'x' || c == 'u' || c == 'U') {
                NL_TRY(unescape_number(literal, 2, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, text));
            } else if (c >= '0' && c <= '7') {
                size_t length = 1;
                while (length < 3 && length + 1 < literal.size() && literal[length + 1] >= '0' &&
                       literal[length + 1] <= '7')
                    ++length;
                NL_TRY(unescape_number(literal, 1, length, 8, text));
            } else if (c == 'N') {
                return wrong("a string has \\N{}, which is not supported");
            } else {
                text += '\\';
                literal.remove_prefix(1);
            }
        }
        return text;
    }

    Result<void> unescape_number(std::string_view& literal, size_t begin, size_t length, uint32_t base,
                                 std::string& text) const {
        char32_t value = 0;
        const bool is_short = literal.size() < begin + length;
        for (size_t i = begin; !is_short && i < begin + length; ++i) {
            const char c = literal[i];
            const uint32_t digit = is_digit(c)            ? static_cast<uint32_t>(c - '0')
                                   : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a') + 10
                                   : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A') + 10
                                                          : 99;
            if (digit >= base) return wrong("a string has an escape that is cut off");
            value = value * base + digit;
        }
        if (is_short || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
            return wrong("a string has an escape that is no character");
        append_character(text, value);
        literal.remove_prefix(begin + length);
        return {};
    }

    std::string source_;
    size_t at_ = 0;
    size_t line_ = 1;
    std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> read_tokens(std::string_view source) {
    return Lexer(normalize_lines(source)).read();
}

}  // namespace nanolith::jinja
