// What can be done with values: operators, attributes, methods, filters and tests.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/run.h"

namespace nanolith::jinja {

// What a function is called with.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;

    // Checks that the arguments are some of these parameters, and puts them in their order: `values[i]` is null where
    // parameter i is not given. `what` is the function's name.
    Result<void> bind(std::string_view what, std::initializer_list<std::string_view> parameters);
    std::vector<const Value*> values;

    // A parameter's value after bind, where it is given and of that type; INVALID_ARGUMENT where it is of another.
    Result<int64_t> integer(size_t i, int64_t otherwise) const;
    Result<const Text*> text(size_t i) const;  // null where it is not given
    [[nodiscard]] bool truth(size_t i, bool otherwise) const;
};

// `a op b`, but for "and" and "or".
Result<Value> apply_operator(Run& run, std::string_view op, const Value& a, const Value& b);
Result<Value> apply_sign(std::string_view sign, const Value& value);
// An error for lists and dictionaries, which can't be a key of a dictionary, nor be looked for among keys.
Result<void> check_key(const Value& value);
Result<bool> contains(Run& run, const Value& value, const Value& element);

// value.name and value[key]. `name` must live as long as the result.
Result<Value> get_attribute(Run& run, const Value& value, const std::string& name);
Result<Value> get_item(Run& run, const Value& value, const Value& key);
// value[begin:end:step], each an integer or none.
Result<Value> get_slice(Run& run, const Value& value, const Value& begin, const Value& end, const Value& step);
// The value at "name" or "name.inner".
Result<Value> get_path(Run& run, const Value& value, const std::string& path);

Result<Value> call_method(Run& run, const Bound& method, Arguments arguments);
Result<Value> call_text_method(Run& run, const Text& text, const std::string& name, Arguments arguments);
bool is_text_method(std::string_view name);

// UNSUPPORTED for filters and tests that are not known.
Result<Value> apply_filter(Run& run, const std::string& name, const Value& value, Arguments arguments);
Result<bool> apply_test(Run& run, const std::string& name, const Value& value, const Arguments& arguments);

// Texts, as methods and filters share them.
Text strip(const Text& text, const Text* characters, bool front, bool back);
Text escape_html(const Text& text);
enum class LetterCase : uint8_t { upper, lower, title, capitalize };
Text with_case(const Text& text, LetterCase to);
Result<Text> replace(Run& run, const Text& text, const Text& from, const Text& to, int64_t count);
Result<Text> join(Run& run, const std::vector<Value>& items, const Text& between);
std::vector<Range> split_lines(std::string_view text, bool keeps_ends);
// Sorted as Python does, by `key` of each value; an error where two can't be compared.
Result<std::vector<Value>> sort_by(Run& run, const std::vector<Value>& items, const std::vector<Value>& keys,
                                   bool reverse);

}  // namespace nanolith::jinja
