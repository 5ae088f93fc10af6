#include <cstring>
#include <type_traits>

#include "api/guard.h"

namespace nanolith::api {
namespace {

// The latest error of a thread. Plain memory: a destructor would have to be registered at a thread's first error, which
// takes memory, when there may be none.
struct LastError {
    static constexpr size_t kRoom = 1024;
    char message[kRoom];
    int64_t details[std::tuple_size_v<ErrorDetails>];
    bool has_detail[std::tuple_size_v<ErrorDetails>];
};
static_assert(std::is_trivially_destructible_v<LastError>);

constinit thread_local LastError last_error = {};  // NOLINT: nl_last_error is per thread by contract

// The most bytes of a text, at most `room`, that end with a whole UTF-8 character.
size_t fitting(const char* text, size_t length, size_t room) {
    if (length <= room) return length;
    const auto continues = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
    while (room > 0 && continues(room)) --room;
    return room;
}

}  // namespace

nl_status report(nl_status status, const char* message, const ErrorDetails& details) noexcept {
    LastError& last = last_error;
    const size_t length = fitting(message, std::strlen(message), LastError::kRoom - 1);
    std::memcpy(last.message, message, length);
    last.message[length] = '\0';
    for (size_t i = 0; i < details.size(); ++i) {
        last.has_detail[i] = details[i].has_value();
        last.details[i] = details[i].value_or(0);
    }
    return status;
}

nl_status report(const Error& error) noexcept {
    return report(error.status, error.message.c_str(), error.details);
}

}  // namespace nanolith::api

using nanolith::api::last_error;

extern "C" {

const char* nl_last_error(void) {
    return last_error.message;
}

nl_status nl_last_error_detail(int32_t detail, int64_t* value) {
    if (value == nullptr) return NL_ERROR_INVALID_ARGUMENT;
    const auto index = static_cast<uint32_t>(detail) - 1;  // of 0 and below: a large number
    if (index >= std::size(last_error.details) || !last_error.has_detail[index]) return NL_ERROR_NOT_FOUND;
    *value = last_error.details[index];
    return NL_OK;
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
        case NL_ERROR_BAD_FILE:
            return "NL_ERROR_BAD_FILE";
        default:
            return "NL_ERROR_UNKNOWN";
    }
}

#define NL_QUOTE_(x) #x
#define NL_QUOTE(x) NL_QUOTE_(x)
const char* nl_version(void) {
    return NL_QUOTE(NL_VERSION_MAJOR) "." NL_QUOTE(NL_VERSION_MINOR) "." NL_QUOTE(NL_VERSION_PATCH);
}

int32_t nl_version_number(void) {
    return NL_VERSION_NUMBER;
}

}  // extern "C"
