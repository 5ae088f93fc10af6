// Writes small JSON objects. (The JSON library that reads files asserts where it finds no memory, which would end the
// process.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nanolith {

// One object, whose members stand in the order of the calls.
class JsonObject {
  public:
    // What is not UTF-8 becomes U+FFFD.
    JsonObject& add(std::string_view name, std::string_view text);
    JsonObject& add(std::string_view name, const char* text) { return add(name, std::string_view(text)); }
    JsonObject& add(std::string_view name, int64_t number);
    JsonObject& add(std::string_view name, double number);  // finite
    // `json` as it is.
    JsonObject& add_json(std::string_view name, std::string_view json);

    [[nodiscard]] std::string text() const { return "{" + members_ + "}"; }

  private:
    std::string members_;
};

// The text as a JSON string, in quotes.
std::string json_quoted(std::string_view text);
// The shortest digits that are this number and no other.
std::string shortest_digits(double number);

}  // namespace nanolith
