// Two libraries that stand in for the CUDA backend: without NL_TEST_EXPORT one that exports nothing, with it one of
// another version.
#include "backend/backend.h"

#ifdef NL_TEST_EXPORT
extern "C" __attribute__((visibility("default"))) void nl_backend_open(
    const char* version, int32_t index, nanolith::Result<std::unique_ptr<nanolith::Backend>>& result) {
    result = nanolith::fail(NL_ERROR_UNSUPPORTED, "device ", index,
                            " of backend version 99.0.0 can't serve library version ", version);
}
#endif
