// The JSON type of the server: members keep their order, which chat templates show to the model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace server {

using Json = nlohmann::ordered_json;

// A request's body, or an ApiError that says where it is not JSON, or nested too deeply.
Json parse_body(const std::string& body);

// Compact text; never fails, since bytes that are no UTF-8 become U+FFFD.
std::string to_text(const Json& json);

// Appends `text` to `out` as a JSON string with its quotes.
void append_quoted(std::string& out, std::string_view text);

}  // namespace server
