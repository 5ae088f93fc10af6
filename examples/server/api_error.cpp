#include "api_error.h"

#include "handles.h"

namespace server {
namespace {

ApiError make(int status, const std::string& type, const std::string& param, const std::string& code,
              const std::string& message) {
    ApiError error;
    error.status = status;
    error.type = type;
    error.param = param;
    error.code = code;
    error.message = message;
    return error;
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

Json ApiError::json() const {
    return {{"error",
             {{"message", message}, {"type", type}, {"param", text_or_null(param)}, {"code", text_or_null(code)}}}};
}

ApiError bad_request(const std::string& param, const std::string& message, const std::string& code) {
    return make(400, "invalid_request_error", param, code, message);
}

ApiError unsupported(const std::string& param, const std::string& message) {
    return make(400, "invalid_request_error", param, "unsupported_parameter", message);
}

ApiError too_busy(const std::string& message) {
    ApiError error = make(429, "rate_limit_error", "", "queue_full", message);
    error.retry_seconds = 1;
    return error;
}

ApiError not_found(const std::string& param, const std::string& message, const std::string& code) {
    return make(404, "invalid_request_error", param, code, message);
}

ApiError stopping() {
    ApiError error = make(503, "server_error", "", "stopping", "The server is stopping.");
    error.retry_seconds = 10;
    return error;
}

void must(nl_status status, const std::string& param) {
    if (status == NL_OK) return;
    const std::string said = nl_last_error();
    switch (status) {
        case NL_ERROR_INVALID_ARGUMENT:
        case NL_ERROR_NOT_FOUND:
            throw bad_request(param, said);
        case NL_ERROR_UNSUPPORTED:
            throw unsupported(param, said);
        case NL_ERROR_CONTEXT_FULL:
            throw bad_request(param, said, "context_length_exceeded");
        case NL_ERROR_BUSY:
            throw too_busy(said);
        case NL_ERROR_CANCELLED:
            throw stopping();
        case NL_ERROR_OUT_OF_PAGES:
        case NL_ERROR_OUT_OF_MEMORY: {
            ApiError error = make(503, "server_error", param, nl_status_name(status), said);
            error.retry_seconds = 1;
            throw error;
        }
        default:
            throw make(500, "server_error", param, nl_status_name(status), said);
    }
}

}  // namespace server
