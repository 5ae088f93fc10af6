#include "api/options.h"

#include "api/guard.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

OptionValue standard_of(const Option& option) {
    switch (option.type) {
        case OptionType::integer:
            return option.standard;
        case OptionType::number:
            return option.standard_number;
        case OptionType::text:
            return std::string(option.standard_text);
        case OptionType::integers:
            return std::vector<int64_t>();
        default:
            return std::vector<std::string>();
    }
}

bool takes_integers(const Option& option) {
    return option.type == OptionType::integer || option.type == OptionType::integers;
}
bool takes_numbers(const Option& option) {
    return option.type == OptionType::number;
}
bool takes_texts(const Option& option) {
    return option.type == OptionType::text || option.type == OptionType::texts;
}

// The option with this key. Fails where the handle is of another kind.
Result<const Option*> check_option(const nl_options* options, int32_t key) {
    NL_TRY(check_pointer(options, "options"));
    const Option* const option = find_option(key);
    if (option == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, "option is ", key, ": expected one of NL_OPTION_*");
    if (option->kind != options->kind)
        return fail(NL_ERROR_INVALID_ARGUMENT, "option is NL_OPTION_", option->name, ", of ", kind_name(option->kind),
                    ": expected one of ", kind_name(options->kind), ", which the options are");
    return option;
}

// The same. Fails, too, where the option is not of the type that `function` sets or gets.
Result<const Option*> check_option(const nl_options* options, int32_t key, bool (*takes)(const Option&),
                                   const char* function) {
    NL_ASSIGN(const Option* const option, check_option(options, key));
    if (!takes(*option))
        return fail(NL_ERROR_INVALID_ARGUMENT, "option is NL_OPTION_", option->name, ", which is ",
                    type_phrase(option->type), ": expected an option for ", function);
    return option;
}

// Replaces a value, or adds an element to a list.
template <typename T>
Result<void> put(OptionValue& value, const Option& option, T element) {
    auto* const list = std::get_if<std::vector<T>>(&value);
    if (list == nullptr) {
        value = std::move(element);
        return {};
    }
    if (list->size() >= kMostElements)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_", option.name, " has ", list->size(),
                    " elements: expected no more than these");
    list->push_back(std::move(element));
    return {};
}

Result<void> check_index(const Option& option, size_t index, size_t size) {
    if (index >= size)
        return fail(NL_ERROR_INVALID_ARGUMENT, "index is ", index, ": expected less than ", size,
                    ", the elements of NL_OPTION_", option.name);
    return {};
}

// Element `index` of a list; of other values, element 0 is the value.
template <typename T>
Result<const T*> element(const OptionValue& value, const Option& option, size_t index) {
    const auto* const list = std::get_if<std::vector<T>>(&value);
    NL_TRY(check_index(option, index, list != nullptr ? list->size() : 1));
    return list != nullptr ? &(*list)[index] : &std::get<T>(value);
}

// Only options of one kind have a callback.
Result<void> check_has_callback(const nl_options* options, int32_t kind) {
    NL_TRY(check_pointer(options, "options"));
    return check_kind(options, kind);
}

}  // namespace

nl_options::nl_options(int32_t of) : kind(of) {
    for (const Option& option : options_of(kind)) values.push_back(standard_of(option));
}

OptionValue& nl_options::at(const Option& option) {
    return values[&option - options_of(kind).data()];
}

const OptionValue& nl_options::at(const Option& option) const {
    return values[&option - options_of(kind).data()];
}

extern "C" {

nl_status nl_options_create(int32_t kind, nl_options** options) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        if (kind_name(kind) == nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, "kind is ", kind, ": expected one of NL_OPTIONS_*");
        *options = new nl_options(kind);
        return {};
    });
}

void nl_options_free(nl_options* options) {
    drop(options);
}

nl_status nl_options_set_int(nl_options* options, int32_t option, int64_t value) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option, takes_integers, "nl_options_set_int"));
        NL_TRY(check_value(*row, value));
        return put(options->at(*row), *row, value);
    });
}

nl_status nl_options_set_float(nl_options* options, int32_t option, double value) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option, takes_numbers, "nl_options_set_float"));
        NL_TRY(check_value(*row, value));
        options->at(*row) = value;
        return {};
    });
}

nl_status nl_options_set_text(nl_options* options, int32_t option, const char* text, size_t text_length) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option, takes_texts, "nl_options_set_text"));
        NL_ASSIGN(const auto bytes, check_array(text, text_length, "text", "text_length"));
        NL_TRY(check_value(*row, std::string_view(bytes.data(), bytes.size())));
        return put(options->at(*row), *row, std::string(bytes.begin(), bytes.end()));
    });
}

nl_status nl_options_get_int(const nl_options* options, int32_t option, size_t index, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option, takes_integers, "nl_options_get_int"));
        NL_TRY(check_pointer(value, "value"));
        NL_ASSIGN(const int64_t* const found, element<int64_t>(options->at(*row), *row, index));
        *value = *found;
        return {};
    });
}

nl_status nl_options_get_float(const nl_options* options, int32_t option, size_t index, double* value) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option, takes_numbers, "nl_options_get_float"));
        NL_TRY(check_pointer(value, "value"));
        NL_TRY(check_index(*row, index, 1));
        *value = std::get<double>(options->at(*row));
        return {};
    });
}

nl_status nl_options_get_text(const nl_options* options, int32_t option, size_t index, char* buffer, size_t capacity,
                              size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option, takes_texts, "nl_options_get_text"));
        NL_TRY(check_pointer(length, "length"));
        NL_ASSIGN(const std::string* const found, element<std::string>(options->at(*row), *row, index));
        return give_text(*found, buffer, capacity, length);
    });
}

nl_status nl_options_get_count(const nl_options* options, int32_t option, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option));
        NL_TRY(check_pointer(count, "count"));
        const OptionValue& value = options->at(*row);
        if (const auto* const integers = std::get_if<std::vector<int64_t>>(&value)) {
            *count = integers->size();
        } else if (const auto* const texts = std::get_if<std::vector<std::string>>(&value)) {
            *count = texts->size();
        } else {
            *count = 1;
        }
        return {};
    });
}

nl_status nl_options_reset(nl_options* options, int32_t option) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const Option* const row, check_option(options, option));
        options->at(*row) = standard_of(*row);
        return {};
    });
}

nl_status nl_options_set_log(nl_options* options, nl_log_callback callback, void* user_data) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_has_callback(options, NL_OPTIONS_ENGINE));
        options->log = callback;
        options->log_user_data = user_data;
        return {};
    });
}

nl_status nl_options_set_progress(nl_options* options, nl_progress_callback callback, void* user_data) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_has_callback(options, NL_OPTIONS_ENGINE));
        options->progress = callback;
        options->progress_user_data = user_data;
        return {};
    });
}

nl_status nl_options_set_logits(nl_options* options, nl_logits_callback callback, void* user_data) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_has_callback(options, NL_OPTIONS_GENERATION));
        options->logits = callback;
        options->logits_user_data = user_data;
        return {};
    });
}

}  // extern "C"
