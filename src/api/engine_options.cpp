#include <bit>

#include "api/guard.h"
#include "api/handles.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

// Sets one integer option after checking its range.
template <typename T>
nl_status set_in_range(nl_engine_options* options, T EngineOptions::*member, const char* name, T value, T least,
                       T most) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        if (value < least || value > most)
            return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", value, ": expected ", least, " to ", most);
        options->options.*member = value;
        return {};
    });
}

}  // namespace

extern "C" {

nl_status nl_engine_options_create(nl_engine_options** options) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        *options = new nl_engine_options;
        return {};
    });
}

void nl_engine_options_free(nl_engine_options* options) {
    delete options;
}

nl_status nl_engine_options_set_device(nl_engine_options* options, const char* device, size_t length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        NL_ASSIGN(const auto text, check_array(device, length, "device", "length"));
        constexpr size_t kLongest = 32;
        if (length == 0 || length > kLongest)
            return fail(NL_ERROR_INVALID_ARGUMENT, "length is ", length,
                        ": expected the length of \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"");
        options->options.device.assign(text.begin(), text.end());
        return {};
    });
}

nl_status nl_engine_options_set_dtype(nl_engine_options* options, int32_t dtype) {
    return set_in_range<int32_t>(options, &EngineOptions::dtype, "dtype", dtype, NL_DTYPE_AUTO, NL_DTYPE_BF16);
}

nl_status nl_engine_options_set_page_size(nl_engine_options* options, int32_t page_size) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        if (page_size < 16 || page_size > 256 || !std::has_single_bit(static_cast<uint32_t>(page_size)))
            return fail(NL_ERROR_INVALID_ARGUMENT, "page_size is ", page_size,
                        ": expected a power of two from 16 to 256");
        options->options.page_size = page_size;
        return {};
    });
}

nl_status nl_engine_options_set_num_pages(nl_engine_options* options, int64_t num_pages) {
    return set_in_range<int64_t>(options, &EngineOptions::num_pages, "num_pages", num_pages, 0, INT64_MAX);
}

nl_status nl_engine_options_set_max_context(nl_engine_options* options, int64_t max_context) {
    return set_in_range<int64_t>(options, &EngineOptions::max_context, "max_context", max_context, 0, INT64_MAX);
}

nl_status nl_engine_options_set_max_batch_tokens(nl_engine_options* options, int32_t max_batch_tokens) {
    return set_in_range<int32_t>(options, &EngineOptions::max_batch_tokens, "max_batch_tokens", max_batch_tokens, 1,
                                 65536);
}

nl_status nl_engine_options_set_threads(nl_engine_options* options, int32_t num_threads) {
    return set_in_range<int32_t>(options, &EngineOptions::num_threads, "num_threads", num_threads, 0, 1024);
}

nl_status nl_engine_options_set_log(nl_engine_options* options, nl_log_callback callback, void* user_data) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        options->options.log = callback;
        options->options.log_user_data = user_data;
        return {};
    });
}

}  // extern "C"
