#include "connection.h"

#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "no_sigpipe.h"

namespace nanolith::redis {
namespace {

constexpr size_t kMostOfLogin = 1 << 16;            // bytes of a reply to AUTH or SELECT
constexpr std::chrono::milliseconds kLimitsFor{2};  // how long the system's limit of a wait is left as it is

// What is left until the deadline, at least a microsecond: to hiredis zero is no limit.
timeval left_until(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
    const auto micros = std::max<int64_t>(left, 1);
    return {static_cast<time_t>(micros / 1000000), static_cast<suseconds_t>(micros % 1000000)};
}

Error too_late() {
    return fail(NL_ERROR_TIMEOUT, "it did not answer in time");
}

}  // namespace

Error Connection::failure(const char* doing) const {
    const bool is_system = context_->err == REDIS_ERR_IO;
    return fail(NL_ERROR_IO, doing, " failed: ", is_system ? std::strerror(errno) : context_->errstr);
}

Result<std::unique_ptr<Connection>> Connection::open(const Address& address, Clock::time_point deadline) {
    const NoSigpipe no_signal;
    const timeval left = left_until(deadline);
    redisContext* const context = address.unix_path.empty()
                                      ? redisConnectWithTimeout(address.host.c_str(), address.port, left)
                                      : redisConnectUnixWithTimeout(address.unix_path.c_str(), left);
    if (context == nullptr) return fail(NL_ERROR_OUT_OF_MEMORY, "host memory is exhausted");
    std::unique_ptr<Connection> connection(new Connection(context));
    if (context->err != 0) return connection->failure("connecting");
    if (!address.password.empty()) {
        std::vector<std::string_view> login{"AUTH", address.user, address.password};
        if (address.user.empty()) login.erase(login.begin() + 1);
        NL_TRY(connection->command(login, deadline));
    }
    if (address.database != 0) {
        const std::string database = std::to_string(address.database);
        const std::array<std::string_view, 2> select{"SELECT", database};
        NL_TRY(connection->command(select, deadline));
    }
    return connection;
}

Result<void> Connection::command(std::span<const std::string_view> arguments, Clock::time_point deadline) {
    NL_TRY(append(arguments));
    NL_TRY(send(deadline));
    NL_ASSIGN(const Reply reply, receive(kMostOfLogin, deadline));
    if (reply->type != REDIS_REPLY_ERROR) return {};
    return fail(NL_ERROR_IO, "it refused ", arguments[0], ": ", std::string_view(reply->str, reply->len));
}

Result<void> Connection::append(std::span<const std::string_view> arguments) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const std::string_view argument : arguments) {
        texts.push_back(argument.data());
        sizes.push_back(argument.size());
    }
    const int status =
        redisAppendCommandArgv(context_.get(), static_cast<int>(texts.size()), texts.data(), sizes.data());
    if (status != REDIS_OK) return fail(NL_ERROR_OUT_OF_MEMORY, "host memory is exhausted");
    return {};
}

Result<void> Connection::limit_waits(Clock::time_point deadline) {
    const auto now = Clock::now();
    if (now >= deadline) return too_late();
    if (now < limited_at_ + kLimitsFor && deadline >= limited_to_) return {};
    if (redisSetTimeout(context_.get(), left_until(deadline)) != REDIS_OK) return failure("setting a deadline");
    limited_at_ = now;
    limited_to_ = deadline;
    return {};
}

Result<void> Connection::send(Clock::time_point deadline) {
    const NoSigpipe no_signal;
    int done = 0;
    while (done == 0) {
        NL_TRY(limit_waits(deadline));
        errno = 0;
        if (redisBufferWrite(context_.get(), &done) == REDIS_OK) continue;
        return errno == EAGAIN ? too_late() : failure("sending");
    }
    return {};
}

Result<Reply> Connection::receive(size_t most_bytes, Clock::time_point deadline) {
    while (true) {
        void* reply = nullptr;
        if (redisGetReplyFromReader(context_.get(), &reply) != REDIS_OK) return failure("reading its answer");
        if (reply != nullptr) return Reply(static_cast<redisReply*>(reply));
        if (context_->reader->len > most_bytes)
            return fail(NL_ERROR_IO, "its answer is longer than what was asked for");
        NL_TRY(limit_waits(deadline));
        errno = 0;
        if (redisBufferRead(context_.get()) == REDIS_OK) continue;
        return errno == EAGAIN ? too_late() : failure("reading its answer");
    }
}

}  // namespace nanolith::redis
