// JSON from files that nobody vouches for: a small tree of values, and its parser with limits and without exceptions
// (but for std::bad_alloc, which leaves nothing behind).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace nanolith {

// Deepest nesting of objects and arrays that is read.
constexpr int kMaxJsonDepth = 64;
// Longest JSON file that is read where a caller does not say otherwise, in bytes.
constexpr size_t kMaxJsonBytes = size_t{16} << 20;

struct JsonMember;

// One JSON value and all that is in it. It moves and does not copy. Its destructor recurses, at most kMaxJsonDepth
// deep, and allocates nothing: it must work where memory has run out.
class Json {
  public:
    using Array = std::vector<Json>;
    using Object = std::vector<JsonMember>;  // sorted by name, no name twice
    // An integer is an int64_t where it is written with a minus, else a uint64_t; beyond those it is a double, as are
    // numbers with a point or an exponent.
    using Value = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object>;

    Json();
    explicit Json(Value value);
    Json(const Json&) = delete;
    Json& operator=(const Json&) = delete;
    Json(Json&& other) noexcept;
    Json& operator=(Json&& other) noexcept;
    ~Json();

    [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
    // The value where it is of the type T, one of Value's; else null.
    template <typename T>
    [[nodiscard]] const T* as() const {
        return std::get_if<T>(&value_);
    }
    template <typename T>
    [[nodiscard]] T* as() {
        return std::get_if<T>(&value_);
    }
    // An object's value of that name, in logarithmic time; null where there is none or this is no object.
    [[nodiscard]] const Json* find(std::string_view name) const;

  private:
    Value value_;
};

struct JsonMember {
    std::string name;
    Json value;
};

// The object in `text`. BAD_MODEL: not JSON, not an object, a key twice in one object, nested deeper than
// kMaxJsonDepth, longer than `max_bytes`. `where` begins the message: the file's path.
Result<Json> parse_json_object(std::string_view text, const std::string& where, size_t max_bytes = kMaxJsonBytes);

// The object in the file at `path`; NOT_FOUND where there is none.
Result<Json> read_json_object(const std::string& path);

// A value, or a string as a JSON value, as a message shows it: ASCII on one line, cut after some 80 characters. What
// is not UTF-8 shows as U+FFFD.
std::string show_json(const Json& value);
std::string show_json(std::string_view text);

}  // namespace nanolith
