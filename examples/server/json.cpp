#include "json.h"

#include "api_error.h"

namespace server {
namespace {

constexpr int kMostDepth = 64;

}  // namespace

Json parse_body(const std::string& body) {
    const auto watch = [](int depth, Json::parse_event_t, Json&) {
        if (depth > kMostDepth) throw bad_request("", "The body is nested more than 64 levels deep.");
        return true;
    };
    Json json;
    try {
        json = Json::parse(body, watch);
    } catch (const Json::exception& error) {
        throw bad_request("", std::string("The body is not JSON: ") + error.what());
    }
    if (!json.is_object()) throw bad_request("", "The body is not a JSON object.");
    return json;
}

std::string to_text(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_quoted(std::string& out, std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (byte < 0x20) {
            out += "\\u00";
            out += kHex[byte >> 4];
            out += kHex[byte & 15];
        } else {
            out += c;
        }
    }
    out += '"';
}

}  // namespace server
