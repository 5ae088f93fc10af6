// The functions that describe the library itself: its options and facts, and their bounds.
#include "api/fact_table.h"
#include "api/guard.h"
#include "api/option_table.h"
#include "text/json_writer.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

void add_bounds(JsonObject& object, const Option& option) {
    if (option.type == OptionType::number) {
        object.add("least", option.least_number).add("most", option.most_number);
        object.add("default", option.standard_number);
        return;
    }
    object.add("least", option.least).add("most", option.most);
    switch (option.type) {
        case OptionType::integer:
            object.add("default", option.standard);
            return;
        case OptionType::text:
            object.add("default", option.standard_text);
            return;
        default:
            object.add_json("default", "[]");
    }
}

std::string as_json(const Option& option) {
    JsonObject object;
    object.add("name", option.name).add("key", int64_t{option.key}).add("type", type_name(option.type));
    add_bounds(object, option);
    return object.add("doc", option.doc).text();
}

std::string as_json(const Fact& fact) {
    JsonObject object;
    object.add("name", fact.name).add("key", int64_t{fact.key}).add("unit", fact.unit).add("doc", fact.doc);
    return object.text();
}

template <typename Row>
std::string as_json(std::span<const Row> rows) {
    std::string list;
    for (const Row& row : rows) list += (list.empty() ? "[" : ",") + as_json(row);
    return list + "]";
}

// The option of this key, where its bounds are of one of two types.
Result<const Option*> bounded(int32_t key, OptionType type, OptionType list, const char* expected) {
    const Option* const option = find_option(key);
    if (option == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, "option is ", key, ": expected one of NL_OPTION_*");
    if (option->type != type && option->type != list)
        return fail(NL_ERROR_INVALID_ARGUMENT, "option is NL_OPTION_", option->name, ", which is ",
                    type_phrase(option->type), ": expected ", expected);
    return option;
}

}  // namespace

extern "C" {

nl_status nl_option_describe(int32_t kind, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(length, "length"));
        const auto options = options_of(kind);
        if (options.empty()) return fail(NL_ERROR_INVALID_ARGUMENT, "kind is ", kind, ": expected one of NL_OPTIONS_*");
        return give_text(as_json(options), buffer, capacity, length);
    });
}

nl_status nl_option_bounds_int(int32_t option, int64_t* least, int64_t* most, int64_t* standard) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(least, "least"));
        NL_TRY(check_pointer(most, "most"));
        NL_TRY(check_pointer(standard, "standard"));
        NL_ASSIGN(const Option* const row,
                  bounded(option, OptionType::integer, OptionType::integers, "an option that takes integers"));
        *least = row->least;
        *most = row->most;
        *standard = row->standard;
        return {};
    });
}

nl_status nl_option_bounds_float(int32_t option, double* least, double* most, double* standard) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(least, "least"));
        NL_TRY(check_pointer(most, "most"));
        NL_TRY(check_pointer(standard, "standard"));
        NL_ASSIGN(const Option* const row,
                  bounded(option, OptionType::number, OptionType::number, "an option that takes floats"));
        *least = row->least_number;
        *most = row->most_number;
        *standard = row->standard_number;
        return {};
    });
}

nl_status nl_fact_describe(int32_t kind, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(length, "length"));
        const auto facts = facts_of(kind);
        if (facts.empty()) return fail(NL_ERROR_INVALID_ARGUMENT, "kind is ", kind, ": expected one of NL_FACTS_*");
        return give_text(as_json(facts), buffer, capacity, length);
    });
}

}  // extern "C"
