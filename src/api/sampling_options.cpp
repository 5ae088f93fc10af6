#include <cmath>

#include "api/guard.h"
#include "api/handles.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

template <typename T>
nl_status set_checked(nl_sampling_options* options, T SamplingOptions::*member, const char* name, T value, bool valid,
                      const char* expected) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        if (!valid) return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", value, ": expected ", expected);
        options->options.*member = value;
        return {};
    });
}

}  // namespace

extern "C" {

nl_status nl_sampling_options_create(nl_sampling_options** options) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        *options = new nl_sampling_options;
        return {};
    });
}

void nl_sampling_options_free(nl_sampling_options* options) {
    delete options;
}

nl_status nl_sampling_options_set_temperature(nl_sampling_options* options, float temperature) {
    return set_checked(options, &SamplingOptions::temperature, "temperature", temperature,
                       std::isfinite(temperature) && temperature >= 0, "a finite number of at least 0");
}

nl_status nl_sampling_options_set_top_k(nl_sampling_options* options, int32_t top_k) {
    return set_checked(options, &SamplingOptions::top_k, "top_k", top_k, top_k >= 0, "at least 0");
}

nl_status nl_sampling_options_set_top_p(nl_sampling_options* options, float top_p) {
    return set_checked(options, &SamplingOptions::top_p, "top_p", top_p, top_p > 0 && top_p <= 1,
                       "more than 0 and at most 1");
}

nl_status nl_sampling_options_set_min_p(nl_sampling_options* options, float min_p) {
    return set_checked(options, &SamplingOptions::min_p, "min_p", min_p, min_p >= 0 && min_p <= 1, "0 to 1");
}

nl_status nl_sampling_options_set_seed(nl_sampling_options* options, uint64_t seed) {
    return set_checked(options, &SamplingOptions::seed, "seed", seed, true, "any number");
}

}  // extern "C"
