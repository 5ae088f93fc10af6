// What a connection's bytes go through: the socket itself, or TLS upon it.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"

namespace nanolith::redis {

using Clock = std::chrono::steady_clock;

inline Error no_memory() {
    return fail(NL_ERROR_OUT_OF_MEMORY, "host memory is exhausted");
}

// After an error a channel is of no more use. No call raises SIGPIPE.
class Channel {
  public:
    Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    virtual ~Channel() = default;

    // Sends all of the bytes. TIMEOUT where the deadline passes, IO where the server has closed the connection.
    virtual Result<void> send(std::string_view bytes, Clock::time_point deadline) = 0;
    // Waits for bytes of the server: how many there are now in `into`, at least one. Errors are those of send().
    virtual Result<size_t> receive(std::span<char> into, Clock::time_point deadline) = 0;
};

}  // namespace nanolith::redis
