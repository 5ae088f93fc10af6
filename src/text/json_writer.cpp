#include "text/json_writer.h"

#include <charconv>
#include <iterator>

#include "text/utf8.h"

namespace nanolith {

std::string json_quoted(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string quoted = "\"";
    for (const char c : replace_invalid_utf8(text)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            quoted += '\\';
            quoted += c;
        } else if (byte < 0x20) {
            quoted += "\\u00";
            quoted += kHex[byte >> 4U];
            quoted += kHex[byte & 15U];
        } else {
            quoted += c;
        }
    }
    return quoted + "\"";
}

std::string shortest_digits(double number) {
    char buffer[32];
    const auto end = std::to_chars(std::begin(buffer), std::end(buffer), number);
    return {buffer, end.ptr};
}

JsonObject& JsonObject::add_json(std::string_view name, std::string_view json) {
    if (!members_.empty()) members_ += ',';
    members_ += json_quoted(name);
    members_ += ':';
    members_ += json;
    return *this;
}

JsonObject& JsonObject::add(std::string_view name, std::string_view text) {
    return add_json(name, json_quoted(text));
}

JsonObject& JsonObject::add(std::string_view name, int64_t number) {
    return add_json(name, std::to_string(number));
}

JsonObject& JsonObject::add(std::string_view name, double number) {
    return add_json(name, shortest_digits(number));
}

}  // namespace nanolith
