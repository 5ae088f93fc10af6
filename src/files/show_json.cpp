// Values as messages show them.
#include <array>
#include <charconv>
#include <cstdio>

#include "files/json.h"

namespace nanolith {
namespace {

// Longest text before it is cut, in characters.
constexpr size_t kLongest = 80;

// The code point at the front of `text` and its length in bytes; U+FFFD and 1 where it is not UTF-8.
struct CodePoint {
    uint32_t value = 0xFFFD;
    size_t length = 1;
};
CodePoint next_code_point(std::string_view text) {
    const auto byte = [text](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
    const uint32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
    uint32_t value = lead & (0x7FU >> length);
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) return {};
        value = (value << 6U) | (byte(i) & 0x3FU);
    }
    constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};  // by length: less is overlong
    if (value < kSmallest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
    return {value, length};
}

// Writes values until the text is long enough to be cut, however large they are.
class Writer {
  public:
    void write(const Json& value) {
        if (full()) return;
        if (value.is_null()) text_ += "null";
        if (const auto* boolean = value.as<bool>()) text_ += *boolean ? "true" : "false";
        if (const auto* integer = value.as<int64_t>()) text_ += std::to_string(*integer);
        if (const auto* integer = value.as<uint64_t>()) text_ += std::to_string(*integer);
        if (const auto* number = value.as<double>()) write(*number);
        if (const auto* text = value.as<std::string>()) write(std::string_view(*text));
        if (const auto* array = value.as<Json::Array>()) write(*array);
        if (const auto* object = value.as<Json::Object>()) write(*object);
    }
    void write(std::string_view text) {
        text_ += '"';
        while (!text.empty() && !full()) {
            const CodePoint next = next_code_point(text);
            write_character(next.value);
            text.remove_prefix(next.length);
        }
        text_ += '"';
    }
    [[nodiscard]] std::string finish() {
        if (text_.size() > kLongest) text_.replace(kLongest, std::string::npos, "...");
        return std::move(text_);
    }

  private:
    [[nodiscard]] bool full() const { return text_.size() > kLongest; }

    void write(double number) {
        std::array<char, 32> buffer{};  // the shortest text that reads back the same takes 24 at most
        const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
        const std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
        text_ += text;
        // 2.0 is not an integer to whoever expects one.
        if (text.find_first_of(".en") == std::string_view::npos) text_ += ".0";
    }
    void write(const Json::Array& array) {
        text_ += '[';
        for (size_t i = 0; i < array.size() && !full(); ++i) {
            if (i > 0) text_ += ',';
            write(array[i]);
        }
        text_ += ']';
    }
    void write(const Json::Object& object) {
        text_ += '{';
        for (size_t i = 0; i < object.size() && !full(); ++i) {
            if (i > 0) text_ += ',';
            write(std::string_view(object[i].name));
            text_ += ':';
            write(object[i].value);
        }
        text_ += '}';
    }
    void write_character(uint32_t c) {
        if (c == '"' || c == '\\') text_ += '\\';
        if (c >= ' ' && c <= '~') {
            text_ += static_cast<char>(c);
        } else if (c <= 0xFFFF) {
            write_escape(c);
        } else {  // a pair of surrogates
            write_escape(0xD800 + ((c - 0x10000) >> 10U));
            write_escape(0xDC00 + ((c - 0x10000) & 0x3FFU));
        }
    }
    void write_escape(uint32_t unit) {
        std::array<char, 8> buffer{};
        std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit & 0xFFFFU);
        text_ += buffer.data();
    }

    std::string text_;
};

}  // namespace

std::string show_json(const Json& value) {
    Writer writer;
    writer.write(value);
    return writer.finish();
}

std::string show_json(std::string_view text) {
    Writer writer;
    writer.write(text);
    return writer.finish();
}

}  // namespace nanolith
