#include "api/guard.h"
#include "api/path.h"
#include "model/describe.h"

using namespace nanolith;
using namespace nanolith::api;

extern "C" {

nl_status nl_model_describe(const char* path, size_t path_length, int32_t format, char* buffer, size_t capacity,
                            size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(length, "length"));
        NL_ASSIGN(const std::string folder, check_path(path, path_length));
        if (format != NL_DESCRIBE_TEXT && format != NL_DESCRIBE_JSON)
            return fail(NL_ERROR_INVALID_ARGUMENT, "format is ", format, ": expected one of NL_DESCRIBE_*");
        NL_ASSIGN(const auto facts, describe_model(folder));
        return give_text(format == NL_DESCRIBE_JSON ? as_json(facts) : as_text(facts), buffer, capacity, length);
    });
}

}  // extern "C"
