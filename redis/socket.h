// A connected socket that belongs to somebody else, whose every read and write ends by a deadline.
#pragma once

#include <sys/time.h>

#include "channel.h"

namespace nanolith::redis {

// What is left until the deadline, at least a microsecond: to the system and to hiredis zero is no limit.
timeval left_until(Clock::time_point deadline);

class Socket final : public Channel {
  public:
    // `descriptor` stays open while this lives.
    explicit Socket(int descriptor) : descriptor_(descriptor) {}

    Result<void> send(std::string_view bytes, Clock::time_point deadline) override;
    Result<size_t> receive(std::span<char> into, Clock::time_point deadline) override;

  private:
    // Tells the system that no read or write may wait beyond the deadline, give or take 2 ms; TIMEOUT where it has
    // passed.
    Result<void> limit_waits(Clock::time_point deadline);

    int descriptor_;
    Clock::time_point limited_at_;
    Clock::time_point limited_to_ = Clock::time_point::max();
};

}  // namespace nanolith::redis
