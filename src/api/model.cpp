#include "api/guard.h"
#include "api/path.h"
#include "engine/describe.h"

using namespace nanolith;
using namespace nanolith::api;

extern "C" {

nl_status nl_model_describe(const char* path, size_t path_length, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(length, "length"));
        NL_ASSIGN(const std::string folder, check_path(path, path_length));
        NL_ASSIGN(const std::string text, describe_model(folder));
        return give_text(text, buffer, capacity, length);
    });
}

}  // extern "C"
