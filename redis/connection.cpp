#include "connection.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "socket.h"
#include "tls.h"

namespace nanolith::redis {
namespace {

constexpr size_t kMostOfLogin = 1 << 16;  // bytes of a reply to AUTH or SELECT

}  // namespace

Error Connection::failure(const char* doing) const {
    const bool is_system = context_->err == REDIS_ERR_IO;
    return fail(NL_ERROR_IO, doing, " failed: ", is_system ? std::strerror(errno) : context_->errstr);
}

Result<std::unique_ptr<Connection>> Connection::open(const Address& address, Clock::time_point deadline) {
    const timeval left = left_until(deadline);
    redisContext* const context = address.unix_path.empty()
                                      ? redisConnectWithTimeout(address.host.c_str(), address.port, left)
                                      : redisConnectUnixWithTimeout(address.unix_path.c_str(), left);
    if (context == nullptr) return no_memory();
    std::unique_ptr<Connection> connection(new Connection(context));
    if (context->err != 0) return connection->failure("connecting");
    if (address.encrypted) {
        NL_ASSIGN(connection->channel_, open_tls(address, context->fd, deadline));
    } else {
        connection->channel_ = std::make_unique<Socket>(context->fd);
    }
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
    char* command = nullptr;
    const auto size = redisFormatCommandArgv(&command, static_cast<int>(texts.size()), texts.data(), sizes.data());
    if (size < 0) return no_memory();
    const std::unique_ptr<char, void (*)(char*)> owned(command, redisFreeCommand);
    unsent_.append(command, static_cast<size_t>(size));
    return {};
}

Result<void> Connection::send(Clock::time_point deadline) {
    const std::string bytes = std::exchange(unsent_, {});
    return channel_->send(bytes, deadline);
}

Result<Reply> Connection::receive(size_t most_bytes, Clock::time_point deadline) {
    std::array<char, 1 << 14> bytes;
    while (true) {
        void* reply = nullptr;
        if (redisGetReplyFromReader(context_.get(), &reply) != REDIS_OK) return failure("reading its answer");
        if (reply != nullptr) return Reply(static_cast<redisReply*>(reply));
        if (context_->reader->len > most_bytes)
            return fail(NL_ERROR_IO, "its answer is longer than what was asked for");
        NL_ASSIGN(const size_t count, channel_->receive(bytes, deadline));
        if (redisReaderFeed(context_->reader, bytes.data(), count) != REDIS_OK) return no_memory();
    }
}

}  // namespace nanolith::redis
