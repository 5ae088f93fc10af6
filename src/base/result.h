// Result<T>: a value or an Error, the way every fallible function inside the library reports. No exceptions
// are thrown on purpose; those of the standard library (bad_alloc) are caught at the ABI.
#pragma once

#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

#include "nanolith/nanolith.h"

namespace nanolith {

// Numbers of an error for programs (nl_last_error_detail): element d - 1 is that of NL_DETAIL_* d, where it has one.
using ErrorDetails = std::array<std::optional<int64_t>, 3>;

struct Error {
    nl_status status = NL_ERROR_INTERNAL;
    std::string message;
    ErrorDetails details = {};

    // fail(NL_ERROR_OUT_OF_PAGES, ...).with(NL_DETAIL_NEEDED, pages): the error with one detail more.
    Error with(int32_t detail, int64_t value) && {
        details.at(detail - 1) = value;
        return std::move(*this);
    }
};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& value() { return std::get<0>(state_); }
    const T& value() const { return std::get<0>(state_); }
    T& operator*() { return value(); }
    const T& operator*() const { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    Error& error() { return std::get<1>(state_); }
    const Error& error() const { return std::get<1>(state_); }

  private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose

    [[nodiscard]] bool ok() const { return !error_.has_value(); }
    explicit operator bool() const { return ok(); }
    Error& error() { return *error_; }
    const Error& error() const { return *error_; }

  private:
    std::optional<Error> error_;
};

// fail(NL_ERROR_X, "page_size is ", v, ", expected ..."): an Error from the parts of its sentence.
template <typename... Parts>
Error fail(nl_status status, const Parts&... parts) {
    std::ostringstream text;
    text.exceptions(std::ios::badbit);  // or it would swallow std::bad_alloc and give half a sentence
    (text << ... << parts);
    return Error{status, std::move(text).str()};
}

}  // namespace nanolith

#define NL_CONCAT_(a, b) a##b
#define NL_CONCAT(a, b) NL_CONCAT_(a, b)

// Returns the error of `expression` (a Result) from the enclosing function, if it has one.
#define NL_TRY(expression)                                          \
    do {                                                            \
        auto nl_result_ = (expression);                             \
        if (!nl_result_.ok()) return std::move(nl_result_.error()); \
    } while (0)

// NL_ASSIGN(auto x, f()): declares or assigns x from a Result, or returns its error.
#define NL_ASSIGN(target, expression) NL_ASSIGN_(NL_CONCAT(nl_result_, __LINE__), target, expression)
#define NL_ASSIGN_(temporary, target, expression)             \
    auto temporary = (expression);                            \
    if (!temporary.ok()) return std::move(temporary.error()); \
    target = std::move(temporary.value())
