// Values as texts: Python's str and repr, and JSON.
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace nanolith::jinja {
namespace {

// Writes text piece by piece and asks for the memory as it grows: a small value can print as a long text, where one
// list stands in another many times.
class Printer {
  public:
    explicit Printer(Run& run) : run_(&run) {}

    Result<void> put(std::string_view own) {
        out_.append(own);
        return check();
    }
    Result<void> put_part(const Text& text, size_t begin, size_t end) {
        out_.append_part(text, begin, end);
        return check();
    }
    // In place of the character of `text` at `at`.
    Result<void> put_escape(const Text& text, size_t at, std::string_view escape) {
        if (!text.has_foreign(at, at + 1)) return put(escape);
        out_.append_foreign(escape);
        return check();
    }
    Text finish() { return std::move(out_); }

    Result<void> step() { return run_->step(); }

  private:
    Result<void> check() {
        if (out_.size() < checked_ + 4096) return {};
        checked_ = out_.size();
        NL_TRY(run_->step(64));
        return run_->check_bytes(checked_);
    }

    Run* run_;
    Text out_;
    size_t checked_ = 0;
};

std::string hex_escape(const char* prefix, char32_t value, int digits) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text = prefix;
    for (int i = digits - 1; i >= 0; --i) text += kDigits[(value >> (4U * static_cast<unsigned>(i))) & 0xFU];
    return text;
}

// Puts a text with `escape` of each of its characters, where that is not empty, in the character's place.
template <typename Escape>
Result<void> put_escaped(Printer& out, const Text& text, const Escape& escape) {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
        size_t length = 0;
        const char32_t character = first_character(text.view().substr(at), length);
        const std::string instead = escape(character);
        if (!instead.empty()) {
            NL_TRY(out.put_part(text, done, at));
            NL_TRY(out.put_escape(text, at, instead));
            done = at + length;
        }
        at += length;
    }
    return out.put_part(text, done, text.size());
}

std::string python_escape(char32_t character, char quote) {
    switch (character) {
        case '\n':
            return "\\n";
        case '\t':
            return "\\t";
        case '\r':
            return "\\r";
        case '\\':
            return "\\\\";
        default:
            break;
    }
    if (character == static_cast<char32_t>(quote)) return std::string("\\") + quote;
    if (character < 0x20 || (character >= 0x7F && character < 0xA1) || character == 0xAD)
        return hex_escape("\\x", character, 2);
    return {};
}

// repr
Result<void> put_repr(Printer& out, const Value& value);

Result<void> put_text_repr(Printer& out, const Text& text) {
    const bool has_single = text.bytes().find('\'') != std::string::npos;
    const char quote = has_single && text.bytes().find('"') == std::string::npos ? '"' : '\'';
    NL_TRY(out.put(std::string(1, quote)));
    NL_TRY(put_escaped(out, text, [quote](char32_t character) { return python_escape(character, quote); }));
    return out.put(std::string(1, quote));
}

Result<void> put_list_repr(Printer& out, const List& list) {
    const bool is_tuple = list.kind == ListKind::tuple;
    if (!list.has_places()) return fail(NL_ERROR_UNSUPPORTED, "a generator or a view of a dictionary can't be printed");
    NL_TRY(out.put(is_tuple ? "(" : "["));
    for (size_t i = 0; i < list.items.size(); ++i) {
        if (i > 0) NL_TRY(out.put(", "));
        NL_TRY(put_repr(out, list.items[i]));
    }
    if (is_tuple && list.items.size() == 1) NL_TRY(out.put(","));
    return out.put(is_tuple ? ")" : "]");
}

Result<void> put_dict_repr(Printer& out, const Dict& dict) {
    NL_TRY(out.put("{"));
    for (size_t i = 0; i < dict.members.size(); ++i) {
        if (i > 0) NL_TRY(out.put(", "));
        NL_TRY(put_repr(out, dict.members[i].first));
        NL_TRY(out.put(": "));
        NL_TRY(put_repr(out, dict.members[i].second));
    }
    return out.put("}");
}

Result<void> put_repr(Printer& out, const Value& value) {
    NL_TRY(out.step());
    if (value.is_undefined()) return out.put("Undefined");
    if (value.is_none()) return out.put("None");
    if (const bool* truth = value.as<bool>()) return out.put(*truth ? "True" : "False");
    if (value.is_integer()) return out.put(std::to_string(value.integer()));
    if (const double* real = value.as<double>()) return out.put(python_float(*real));
    if (const Text* text = value.text()) return put_text_repr(out, *text);
    if (const List* list = value.list()) return put_list_repr(out, *list);
    if (const Dict* dict = value.dict()) return put_dict_repr(out, *dict);
    return fail(NL_ERROR_UNSUPPORTED, "a value of the type ", value.type_name(), " can't be printed");
}

std::string json_escape(char32_t character, bool ascii) {
    switch (character) {
        case '"':
            return "\\\"";
        case '\\':
            return "\\\\";
        case '\n':
            return "\\n";
        case '\r':
            return "\\r";
        case '\t':
            return "\\t";
        case '\b':
            return "\\b";
        case '\f':
            return "\\f";
        default:
            break;
    }
    if (character < 0x20) return hex_escape("\\u", character, 4);
    if (!ascii || character < 0x7F) return {};
    if (character < 0x10000) return hex_escape("\\u", character, 4);
    const char32_t rest = character - 0x10000;
    return hex_escape("\\u", 0xD800 + (rest >> 10U), 4) + hex_escape("\\u", 0xDC00 + (rest & 0x3FFU), 4);
}

class JsonPrinter {
  public:
    JsonPrinter(Run& run, const JsonStyle& style) : run_(&run), out_(run), style_(&style) {}

    Result<void> put(const Value& value, size_t level) {
        NL_TRY(out_.step());
        if (value.is_none()) return out_.put("null");
        if (const bool* truth = value.as<bool>()) return out_.put(*truth ? "true" : "false");
        if (value.is_integer()) return out_.put(std::to_string(value.integer()));
        if (const double* real = value.as<double>()) return out_.put(json_float(*real));
        if (const Text* text = value.text()) return put_text(*text);
        if (const List* list = value.list()) return put_list(*list, level);
        if (const Dict* dict = value.dict()) return put_dict(*dict, level);
        return fail(NL_ERROR_INVALID_ARGUMENT, "a value of the type ", value.type_name(), " is not JSON");
    }
    Text finish() { return out_.finish(); }

  private:
    static std::string json_float(double real) {
        if (std::isnan(real)) return "NaN";
        if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
        return python_float(real);
    }
    Result<void> put_text(const Text& text) {
        NL_TRY(out_.put("\""));
        NL_TRY(put_escaped(out_, text, [this](char32_t character) { return json_escape(character, style_->ascii); }));
        return out_.put("\"");
    }
    // A key that is no text is written as a value is, in quotation marks.
    Result<void> put_key(const Value& key) {
        if (key.text() != nullptr) return put_text(*key.text());
        NL_TRY(out_.put("\""));
        NL_TRY(put(key, 0));
        return out_.put("\"");
    }
    // With an indent, each element is on a line of its own.
    Result<void> put_line(size_t level) {
        if (style_->indent < 0) return {};
        return out_.put("\n" + std::string(level * static_cast<size_t>(style_->indent), ' '));
    }
    Result<void> put_list(const List& list, size_t level) {
        if (!list.has_places())
            return fail(NL_ERROR_INVALID_ARGUMENT, "a generator or a view of a dictionary is not JSON");
        if (list.items.empty()) return out_.put("[]");
        NL_TRY(out_.put("["));
        for (size_t i = 0; i < list.items.size(); ++i) {
            if (i > 0) NL_TRY(out_.put(style_->item_separator));
            NL_TRY(put_line(level + 1));
            NL_TRY(put(list.items[i], level + 1));
        }
        NL_TRY(put_line(level));
        return out_.put("]");
    }
    Result<void> put_dict(const Dict& dict, size_t level) {
        if (dict.members.empty()) return out_.put("{}");
        std::vector<Value> keys;
        for (const auto& [key, value] : dict.members) keys.push_back(key);
        if (style_->sort_keys) {
            NL_ASSIGN(keys, sort_by(*run_, keys, keys, false));
        }
        NL_TRY(out_.put("{"));
        for (size_t i = 0; i < keys.size(); ++i) {
            if (i > 0) NL_TRY(out_.put(style_->item_separator));
            NL_TRY(put_line(level + 1));
            NL_TRY(put_key(keys[i]));
            NL_TRY(out_.put(style_->key_separator));
            NL_TRY(run_->step(keys.size() / 8));
            NL_TRY(put(style_->sort_keys ? *dict.find(keys[i]) : dict.members[i].second, level + 1));
        }
        NL_TRY(put_line(level));
        return out_.put("}");
    }

    Run* run_;
    Printer out_;
    const JsonStyle* style_;
};

}  // namespace

Result<Text> to_text(Run& run, const Value& value) {
    if (const Text* text = value.text()) return *text;
    if (value.is_undefined()) return Text();
    Printer out(run);
    NL_TRY(put_repr(out, value));
    return out.finish();
}

Result<Text> to_json(Run& run, const Value& value, const JsonStyle& style) {
    JsonPrinter printer(run, style);
    NL_TRY(printer.put(value, 0));
    return printer.finish();
}

std::string python_float(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    // The shortest digits, as d.ddde±xx.
    std::array<char, 40> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
    const std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
    const size_t e = text.find('e');
    int exponent = 0;
    const size_t sign = text[e + 1] == '+' ? 2 : 1;
    std::from_chars(text.data() + e + sign, text.data() + text.size(), exponent);
    if (exponent < -4 || exponent >= 16) return std::string(text);
    const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::fixed);
    std::string result(buffer.data(), fixed.ptr);
    return result.find('.') == std::string::npos ? result + ".0" : result;
}

}  // namespace nanolith::jinja
