// What nl_options is, and how it becomes the options that the engine takes.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "api/option_table.h"
#include "base/result.h"
#include "engine/options.h"

namespace nanolith::api {

// Of an OptionType, in the same order.
using OptionValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<std::string>>;

// Options of the kind that the function `expected` takes, or NULL where it allows that.
Result<void> check_kind(const nl_options* options, int32_t expected);

// NULL: every default. The options must be of the kind.
Result<EngineOptions> engine_options(const nl_options* options);
Result<CacheOptions> cache_options(const nl_options* options);
Result<SamplingOptions> sampling_options(const nl_options& options);
Result<GenerationOptions> generation_options(const nl_options* options);

}  // namespace nanolith::api

struct nl_options {
    int32_t kind;
    std::vector<nanolith::api::OptionValue> values;  // one for each of options_of(kind)
    nl_log_callback log = nullptr;
    void* log_user_data = nullptr;
    nl_progress_callback progress = nullptr;
    void* progress_user_data = nullptr;
    nl_logits_callback logits = nullptr;
    void* logits_user_data = nullptr;

    // Every default of the kind, which must be one.
    explicit nl_options(int32_t of);

    // The value of an option of this kind.
    [[nodiscard]] nanolith::api::OptionValue& at(const nanolith::api::Option& option);
    [[nodiscard]] const nanolith::api::OptionValue& at(const nanolith::api::Option& option) const;
    // The same by its key, which must be of this kind, as the type that it has.
    template <typename T>
    [[nodiscard]] const T& get(int32_t key) const {
        return std::get<T>(at(*nanolith::api::find_option(key)));
    }
};
