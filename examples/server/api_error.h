// Errors that a client gets, in OpenAI's form: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <exception>
#include <string>

#include "json.h"

namespace server {

struct ApiError : std::exception {
    int status = 500;  // of HTTP
    std::string message;
    std::string type;       // "invalid_request_error", "rate_limit_error", "server_error", ...
    std::string param;      // the field that is to blame; empty: none
    std::string code;       // for programs; empty: none
    int retry_seconds = 0;  // of Retry-After; 0: no such header

    [[nodiscard]] const char* what() const noexcept override { return message.c_str(); }
    [[nodiscard]] Json json() const;
};

ApiError bad_request(const std::string& param, const std::string& message, const std::string& code = "");
// A field that the server knows and this engine can't do.
ApiError unsupported(const std::string& param, const std::string& message);
// Too much is under way; the client should come again.
ApiError too_busy(const std::string& message);
ApiError not_found(const std::string& param, const std::string& message, const std::string& code);
ApiError stopping();

}  // namespace server
