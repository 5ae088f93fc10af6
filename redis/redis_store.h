// The shared store upon a Redis or Valkey server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "connection.h"
#include "store/shared_store.h"

namespace nanolith::redis {

class RedisStore final : public SharedStore {
  public:
    RedisStore(Address address, std::chrono::milliseconds deadline)
        : address_(std::move(address)), deadline_(deadline) {}

    Result<size_t> read(std::span<const Wanted> parts) override;
    Result<void> write(std::span<const Given> parts) override;

  private:
    // Connects where there is no connection; fails at once while the last failure is recent.
    Result<void> connect(Clock::time_point deadline);
    [[nodiscard]] Error named(const Error& error) const;  // the error, with the server that it is of
    Error lose(const Error& error);                       // closes the connection; the error as named()

    // What the server said of a command that it refused, or nothing; the connection is of use in either case.
    using Refusal = std::optional<std::string>;
    Result<Refusal> read_window(std::span<const Wanted> parts, Clock::time_point deadline, size_t& filled);
    Result<Refusal> write_window(std::span<const Given> parts, Clock::time_point deadline);
    // Runs one of these on a few parts after another, until done(parts) says so or a command is refused.
    template <typename Part, typename Step, typename Done>
    Result<void> in_windows(std::span<const Part> parts, const Step& step, const Done& done);

    Address address_;
    std::chrono::milliseconds deadline_;
    std::unique_ptr<Connection> connection_;
    std::optional<Clock::time_point> failed_at_;
};

}  // namespace nanolith::redis
