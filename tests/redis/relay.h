// Somebody between a client and a server, who sees and may change what the two send.
#pragma once

#include <poll.h>

#include <functional>
#include <mutex>
#include <string>

#include "lying_server.h"

namespace nanolith::testing {

class Relay {
  public:
    // `change` gets what the server at the port has sent; false closes both connections.
    using Change = std::function<bool(std::string& bytes)>;

    explicit Relay(
        int port, Change change = [](std::string&) { return true; })
        : change_(std::move(change)),
          server_([this, port](int client, const std::atomic<bool>& runs) { relay(client, port, runs); },
                  LyingServer::At::kPort) {}

    [[nodiscard]] int port() const { return server_.port(); }
    // Whether either side has sent the text as it is.
    [[nodiscard]] bool saw(const std::string& text) {
        const std::lock_guard lock(mutex_);
        return seen_.find(text) != std::string::npos;
    }

  private:
    void relay(int client, int port, const std::atomic<bool>& runs) {
        const int server = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(static_cast<uint16_t>(port));
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bool goes_on = ::connect(server, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
        while (goes_on && runs) {
            pollfd sides[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
            ::poll(sides, 2, 20);
            if (sides[0].revents != 0) goes_on = pass(client, server, false);
            if (goes_on && sides[1].revents != 0) goes_on = pass(server, client, true);
        }
        ::close(server);
    }
    bool pass(int from, int to, bool is_server) {
        std::string bytes(1 << 16, '\0');
        const ssize_t count = ::read(from, bytes.data(), bytes.size());
        if (count <= 0) return false;
        bytes.resize(static_cast<size_t>(count));
        {
            const std::lock_guard lock(mutex_);
            seen_ += bytes;
        }
        return (!is_server || change_(bytes)) && LyingServer::say(to, bytes);
    }

    Change change_;
    std::mutex mutex_;
    std::string seen_;
    LyingServer server_;  // the last: its thread uses the others
};

}  // namespace nanolith::testing
