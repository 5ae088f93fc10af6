// JSON of a constraint: members in their order, numbers as they are written, and the place of each value in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nanolith::grammar {

struct JsonMember;

struct JsonValue {
    enum class Kind : uint8_t { null, boolean, number, string, array, object };
    Kind kind = Kind::null;
    size_t at = 0;  // byte of the text
    bool truth = false;
    std::string text;  // a string's value in UTF-8, a number's literal
    std::vector<JsonValue> items;
    std::vector<JsonMember> members;
    std::map<std::string, size_t, std::less<>> places;  // of members, by name; none is there twice

    [[nodiscard]] bool is(Kind other) const { return kind == other; }
    [[nodiscard]] const JsonValue* find(std::string_view name) const;
    [[nodiscard]] double number() const;
    // Whether it is a number with an integer value, such as 1, 1.0 or 1e2.
    [[nodiscard]] bool is_integer() const;
};

struct JsonMember {
    std::string name;
    size_t at = 0;
    JsonValue value;
};

// The value of a JSON number, whatever the program's locale. Infinite where it is too large.
double to_number(std::string_view literal);

// INVALID_ARGUMENT, beginning "byte 12: ": not JSON, a name twice in one object, nested too deep.
Result<JsonValue> parse_json(std::string_view text);

// As JSON Schema compares: numbers by value, objects without regard to order.
bool equal(const JsonValue& a, const JsonValue& b);

// A string as JSON spells it.
std::string quoted(std::string_view text);

}  // namespace nanolith::grammar
