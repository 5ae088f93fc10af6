#include "grammar/json_value.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "grammar/grammar_limits.h"
#include "grammar/text_reader.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace nanolith::grammar {
namespace {

constexpr int32_t kMaxJsonNesting = 4 * kMaxNesting;

class JsonReader final : public TextReader {
  public:
    explicit JsonReader(std::string_view text) : TextReader(text) {}

    Result<JsonValue> run() {
        NL_ASSIGN(JsonValue value, read(0));
        skip_spaces();
        if (at_ < text_.size()) return error("text stands behind the value");
        return value;
    }

  private:
    void skip_spaces() {
        while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
    }

    Result<JsonValue> read(int32_t depth) {
        skip_spaces();
        if (depth > kMaxJsonNesting) return error("JSON is nested too deep");
        JsonValue value;
        value.at = at_;
        if (peek() == '{') return object(std::move(value), depth);
        if (peek() == '[') return array(std::move(value), depth);
        if (peek() == '"') {
            value.kind = JsonValue::Kind::string;
            NL_ASSIGN(value.text, string());
            return value;
        }
        if (take("null")) return value;
        if (take("true") || take("false")) {
            value.kind = JsonValue::Kind::boolean;
            value.truth = text_[value.at] == 't';
            return value;
        }
        return number(std::move(value));
    }

    bool digits() {
        if (peek() < '0' || peek() > '9') return false;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return true;
    }

    Result<JsonValue> number(JsonValue value) {
        value.kind = JsonValue::Kind::number;
        take("-");
        if (!take("0") && !digits()) return error("expected a JSON value");
        if (take(".") && !digits()) return error("expected a digit");
        if (peek() == 'e' || peek() == 'E') {
            ++at_;
            if (peek() == '+' || peek() == '-') ++at_;
            if (!digits()) return error("expected a digit");
        }
        value.text = text_.substr(value.at, at_ - value.at);
        return value;
    }

    Result<uint32_t> unicode() {
        NL_ASSIGN(uint32_t c, hex(4));
        if (c >= 0xD800 && c < 0xDC00 && take("\\u")) {
            NL_ASSIGN(const uint32_t low, hex(4));
            if (low < 0xDC00 || low > 0xDFFF) return error("a surrogate has no partner");
            return 0x10000 + ((c - 0xD800) << 10U) + (low - 0xDC00);
        }
        if (c >= 0xD800 && c <= 0xDFFF) return error("a surrogate has no partner");
        return c;
    }

    Result<std::string> string() {
        take("\"");
        std::string value;
        while (!take("\"")) {
            const char c = peek();
            if (at_ >= text_.size()) return error("a string has no end");
            if (static_cast<uint8_t>(c) < 0x20) return error("a control character stands in a string");
            ++at_;
            if (c != '\\') {
                value += c;
                continue;
            }
            static constexpr std::string_view kLetters = "\"\\/bfnrt";
            static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
            const size_t which = kLetters.find(peek());
            if (at_ < text_.size() && which != std::string_view::npos) {
                value += kMeant[which];
                ++at_;
            } else if (take("u")) {
                NL_ASSIGN(const uint32_t code, unicode());
                append_character(value, code);
            } else {
                return error("this escape is not JSON's");
            }
        }
        return value;
    }

    Result<JsonValue> array(JsonValue value, int32_t depth) {
        value.kind = JsonValue::Kind::array;
        take("[");
        skip_spaces();
        if (take("]")) return value;
        while (true) {
            NL_ASSIGN(JsonValue item, read(depth + 1));
            value.items.push_back(std::move(item));
            skip_spaces();
            if (take("]")) return value;
            if (!take(",")) return error("expected ',' or ']'");
        }
    }

    Result<JsonValue> object(JsonValue value, int32_t depth) {
        value.kind = JsonValue::Kind::object;
        take("{");
        skip_spaces();
        if (take("}")) return value;
        while (true) {
            skip_spaces();
            const size_t at = at_;
            if (peek() != '"') return error("expected a name in quotes");
            NL_ASSIGN(std::string name, string());
            if (!value.places.emplace(name, value.members.size()).second) {
                at_ = at;
                return error("this name stands twice in one object");
            }
            skip_spaces();
            if (!take(":")) return error("expected ':'");
            NL_ASSIGN(JsonValue member, read(depth + 1));
            value.members.push_back({std::move(name), at, std::move(member)});
            skip_spaces();
            if (take("}")) return value;
            if (!take(",")) return error("expected ',' or '}'");
        }
    }
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
    const auto found = places.find(name);
    return found != places.end() ? &members[found->second].value : nullptr;
}

double JsonValue::number() const {
    return to_number(text);
}

bool JsonValue::is_integer() const {
    return kind == Kind::number && std::isfinite(number()) && std::floor(number()) == number();
}

double to_number(std::string_view literal) {
    double value = 0;
    if (std::from_chars(literal.data(), literal.data() + literal.size(), value).ec == std::errc()) return value;
    // Out of range: too large, or so small that it counts as 0.
    const size_t exponent = literal.find_first_of("eE");
    const bool small = exponent == std::string_view::npos ? literal.starts_with("0.") || literal.starts_with("-0.")
                                                          : literal[exponent + 1] == '-';
    if (small) return 0;
    return literal.starts_with('-') ? -std::numeric_limits<double>::infinity()
                                    : std::numeric_limits<double>::infinity();
}

Result<JsonValue> parse_json(std::string_view text) {
    if (!is_valid_utf8(text)) return fail(NL_ERROR_INVALID_ARGUMENT, "byte 0: the text is no valid UTF-8");
    return JsonReader(text).run();
}

bool equal(const JsonValue& a, const JsonValue& b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
        case JsonValue::Kind::null:
            return true;
        case JsonValue::Kind::boolean:
            return a.truth == b.truth;
        case JsonValue::Kind::number:
            return a.number() == b.number();
        case JsonValue::Kind::string:
            return a.text == b.text;
        case JsonValue::Kind::array:
            if (a.items.size() != b.items.size()) return false;
            for (size_t i = 0; i < a.items.size(); ++i)
                if (!equal(a.items[i], b.items[i])) return false;
            return true;
        case JsonValue::Kind::object:
            if (a.members.size() != b.members.size()) return false;
            for (const JsonMember& member : a.members) {
                const JsonValue* const other = b.find(member.name);
                if (other == nullptr || !equal(member.value, *other)) return false;
            }
            return true;
    }
    return false;
}

std::string quoted(std::string_view text) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    static constexpr std::string_view kShort = "\b\f\n\r\t";
    static constexpr std::string_view kLetters = "bfnrt";
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<uint8_t>(c);
        if (c == '"' || c == '\\') {
            result.append({'\\', c});
        } else if (const size_t which = kShort.find(c); which != std::string_view::npos) {
            result.append({'\\', kLetters[which]});
        } else if (byte < 0x20) {
            result.append("\\u00").append({kDigits[byte / 16], kDigits[byte % 16]});
        } else {
            result += c;
        }
    }
    return result += '"';
}

}  // namespace nanolith::grammar
