// The options of the ABI: their names, bounds and defaults. Setters, getters, nl_option_describe and
// nl_option_bounds_* read this table; nothing else knows them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace nanolith::api {

enum class OptionType : uint8_t { integer, number, text, integers, texts };

struct Option {
    int32_t key;   // NL_OPTION_*
    int32_t kind;  // NL_OPTIONS_*
    const char* name;
    OptionType type;
    bool power_of_two = false;  // integers alone
    // Of integers and of each element of a list of them; of texts: the length in bytes.
    int64_t least = 0, most = 0, standard = 0;
    double least_number = 0, most_number = 0, standard_number = 0;
    const char* standard_text = "";
    const char* doc = "";
};

// A list takes no more elements.
inline constexpr size_t kMostElements = 1024;

// All options of a kind in the order of their keys; none of an unknown one.
std::span<const Option> options_of(int32_t kind);
// NULL where no option has this key.
const Option* find_option(int32_t key);

// "NL_OPTIONS_ENGINE"; NULL for what is no kind.
const char* kind_name(int32_t kind);
// "an integer", as sentences say it, and "int", as JSON does.
const char* type_phrase(OptionType type);
const char* type_name(OptionType type);

// Whether a value is within the option's bounds: a sentence with name, value and bounds where it isn't.
Result<void> check_value(const Option& option, int64_t value);
Result<void> check_value(const Option& option, double value);
Result<void> check_value(const Option& option, std::string_view text);

}  // namespace nanolith::api
