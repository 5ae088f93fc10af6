#include "api/guard.h"

namespace nanolith::api {
namespace {

thread_local std::string last_message;  // NOLINT: nl_last_error is per thread by contract

}  // namespace

nl_status report(nl_status status, const char* message) noexcept {
    try {
        last_message = message;
    } catch (...) {
        last_message.assign("out of memory");  // short enough to need none
    }
    return status;
}

nl_status report(const Error& error) noexcept {
    return report(error.status, error.message.c_str());
}

}  // namespace nanolith::api

extern "C" {

const char* nl_last_error(void) {
    return nanolith::api::last_message.c_str();
}

const char* nl_status_name(nl_status status) {
    switch (status) {
        case NL_OK:
            return "NL_OK";
        case NL_ERROR_INVALID_ARGUMENT:
            return "NL_ERROR_INVALID_ARGUMENT";
        case NL_ERROR_NOT_FOUND:
            return "NL_ERROR_NOT_FOUND";
        case NL_ERROR_BAD_MODEL:
            return "NL_ERROR_BAD_MODEL";
        case NL_ERROR_UNSUPPORTED:
            return "NL_ERROR_UNSUPPORTED";
        case NL_ERROR_OUT_OF_MEMORY:
            return "NL_ERROR_OUT_OF_MEMORY";
        case NL_ERROR_OUT_OF_PAGES:
            return "NL_ERROR_OUT_OF_PAGES";
        case NL_ERROR_CONTEXT_FULL:
            return "NL_ERROR_CONTEXT_FULL";
        case NL_ERROR_BUFFER_TOO_SMALL:
            return "NL_ERROR_BUFFER_TOO_SMALL";
        case NL_ERROR_DEVICE:
            return "NL_ERROR_DEVICE";
        case NL_ERROR_INTERNAL:
            return "NL_ERROR_INTERNAL";
        case NL_ERROR_CANCELLED:
            return "NL_ERROR_CANCELLED";
        case NL_ERROR_TIMEOUT:
            return "NL_ERROR_TIMEOUT";
        case NL_ERROR_BUSY:
            return "NL_ERROR_BUSY";
        case NL_ERROR_IO:
            return "NL_ERROR_IO";
        default:
            return "NL_ERROR_UNKNOWN";
    }
}

#define NL_TEXT_(x) #x
#define NL_TEXT(x) NL_TEXT_(x)
const char* nl_version(void) {
    return NL_TEXT(NL_VERSION_MAJOR) "." NL_TEXT(NL_VERSION_MINOR) "." NL_TEXT(NL_VERSION_PATCH);
}

}  // extern "C"
