#include "socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nanolith::redis {
namespace {

constexpr std::chrono::milliseconds kLimitsFor{2};  // how long the system's limit of a wait is left as it is

Error too_late() {
    return fail(NL_ERROR_TIMEOUT, "it did not answer in time");
}

// The error of a call that has just failed. A wait that ended at the system's limit is EAGAIN.
Error failure(const char* doing) {
    if (errno == EAGAIN) return too_late();
    return fail(NL_ERROR_IO, doing, " failed: ", std::strerror(errno));
}

}  // namespace

timeval left_until(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
    const auto micros = std::max<int64_t>(left, 1);
    return {static_cast<time_t>(micros / 1000000), static_cast<suseconds_t>(micros % 1000000)};
}

Result<void> Socket::limit_waits(Clock::time_point deadline) {
    const auto now = Clock::now();
    if (now >= deadline) return too_late();
    if (now < limited_at_ + kLimitsFor && deadline >= limited_to_) return {};
    const timeval left = left_until(deadline);
    for (const int waits : {SO_RCVTIMEO, SO_SNDTIMEO}) {
        if (::setsockopt(descriptor_, SOL_SOCKET, waits, &left, sizeof left) != 0)
            return fail(NL_ERROR_IO, "setting a deadline failed: ", std::strerror(errno));
    }
    limited_at_ = now;
    limited_to_ = deadline;
    return {};
}

Result<void> Socket::send(std::string_view bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
        NL_TRY(limit_waits(deadline));
        const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) return failure("sending");
        bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    }
    return {};
}

Result<size_t> Socket::receive(std::span<char> into, Clock::time_point deadline) {
    while (true) {
        NL_TRY(limit_waits(deadline));
        const ssize_t received = ::recv(descriptor_, into.data(), into.size(), 0);
        if (received > 0) return static_cast<size_t>(received);
        if (received == 0) return fail(NL_ERROR_IO, "it closed the connection");
        if (errno != EINTR) return failure("reading its answer");
    }
}

}  // namespace nanolith::redis
