// One connection to a server, whose every call ends by a deadline.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "address.h"
#include "base/result.h"
#include "channel.h"

namespace nanolith::redis {

struct FreeReply {
    void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

// hiredis connects, and knows how commands and replies are written; their bytes go through a channel. After an error of
// any call the connection is of no more use. No call raises SIGPIPE.
class Connection {
  public:
    // Connects, encrypted where the address says so, and logs in and selects the database where it says so.
    static Result<std::unique_ptr<Connection>> open(const Address& address, Clock::time_point deadline);

    // Puts a command and its arguments behind those to be sent.
    Result<void> append(std::span<const std::string_view> arguments);
    // Sends what append() put there.
    Result<void> send(Clock::time_point deadline);
    // The reply to the oldest command that has none yet. TIMEOUT where the deadline passes, IO where the server
    // closes the connection, sends what is no reply, or sends more than `most_bytes` before the reply is whole.
    Result<Reply> receive(size_t most_bytes, Clock::time_point deadline);

  private:
    explicit Connection(redisContext* context) : context_(context) {}
    [[nodiscard]] Error failure(const char* doing) const;
    Result<void> command(std::span<const std::string_view> arguments, Clock::time_point deadline);

    struct FreeContext {
        void operator()(redisContext* context) const noexcept { redisFree(context); }
    };
    std::unique_ptr<redisContext, FreeContext> context_;  // owns the socket
    std::unique_ptr<Channel> channel_;
    std::string unsent_;
};

}  // namespace nanolith::redis
